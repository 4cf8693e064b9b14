#include "src/op/graph_description.h"

#include "src/op/dnn.h"

#include <cudnn.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <pthread.h>
#include <unordered_map>
#include <utility>

namespace autoamp::op {

namespace {

using Json = nlohmann::json;
using Word = std::string_view;

struct Uid {
	int64_t &value; // written as a JSON string
};
struct Values {
	int64_t (&value)[mostGraphDims];
	int count = 0;
};

bool read(const Json &json, Word &to)
{
	if (json.is_string())
		to = json.get_ref<const std::string &>();
	return json.is_string();
}

bool read(const Json &json, bool &to)
{
	if (json.is_boolean())
		to = json.get<bool>();
	return json.is_boolean();
}

bool read(const Json &json, double &to)
{
	if (json.is_number())
		to = json.get<double>();
	return json.is_number();
}

bool read(const Json &json, int64_t &to)
{
	if (json.is_number_integer())
		to = json.get<int64_t>();
	return json.is_number_integer();
}

bool read(const Json &json, Uid &&to)
{
	Word digits;
	if (!read(json, digits) || digits.empty())
		return false;
	const char *const end = digits.data() + digits.size();
	const auto [stop, error] = std::from_chars(digits.data(), end, to.value);
	return stop == end && error == std::errc();
}

bool read(const Json &json, Values &to)
{
	to.count = 0;
	if (!json.is_array() || json.size() > mostGraphDims)
		return false;
	for (const Json &each : json)
		if (!read(each, to.value[to.count++]))
			return false;
	return true;
}

bool read(const Json &json, Dtype &to)
{
	static constexpr std::pair<Word, Dtype> types[] = {{"CUDNN_DATA_FLOAT", Dtype::float32},
	                                                   {"CUDNN_DATA_HALF", Dtype::float16},
	                                                   {"CUDNN_DATA_BFLOAT16", Dtype::bfloat16},
	                                                   {"CUDNN_DATA_DOUBLE", Dtype::float64}};
	Word word;
	to = Dtype::other;
	if (!read(json, word))
		return false;
	for (const auto &[name, type] : types)
		if (word == name)
			to = type;
	return true;
}

// Reads the members of a JSON object. areRead() is false if a member was not read: then the object is not understood.
class Members
{
public:
	explicit Members(const Json &object) : object_(object) {}

	bool has(const char *name) const { return object_.is_object() && object_.contains(name); }
	template <typename Value>
	bool get(const char *name, Value &&to)
	{
		read_++;
		return has(name) && read(object_[name], std::forward<Value>(to));
	}
	template <typename Value>
	bool may(const char *name, Value &&to)
	{
		return !has(name) || get(name, std::forward<Value>(to));
	}
	bool areRead() const { return read_ == object_.size(); }

private:
	const Json &object_;
	size_t read_ = 0;
};

bool readTensor(const Json &json, GraphTensor &tensor)
{
	Members members(json);
	Values dims{tensor.dims}, strides{tensor.strides};
	int64_t vectors = 0, dimension = 0;
	Word order;
	const bool isRead = members.get("name", Uid{tensor.uid}) && members.get("dataType", tensor.type) &&
	                    members.get("dim", dims) && members.get("stride", strides) &&
	                    members.get("isVirtual", tensor.isVirtual) && members.get("isByValue", tensor.isByValue) &&
	                    members.get("vectCount", vectors) && members.get("vectDim", dimension) &&
	                    members.get("ptrAlignment", tensor.alignment) && members.get("reordering", order);
	tensor.rank = dims.count;
	return isRead && members.areRead() && vectors == 1 && order == "CUDNN_TENSOR_REORDERING_NONE" && dims.count &&
	       dims.count == strides.count;
}

bool readConvolution(Members &members, GraphNode &node, const char *first, const char *second, const char *result)
{
	Word mode;
	int64_t groups = 0; // the tensors contain it too
	Values before{node.padBefore}, after{node.padAfter}, stride{node.stride}, dilation{node.dilation};
	const bool hasOnePad = members.has("pad");
	const bool isRead = members.get("mode", mode) && members.get("alpha", node.alpha) &&
	                    members.get("beta", node.beta) && members.get(hasOnePad ? "pad" : "pad_lower", before) &&
	                    (hasOnePad || members.get("pad_upper", after)) && members.get("stride", stride) &&
	                    members.get("dilation", dilation) && members.get(first, Uid{node.first}) &&
	                    members.get(second, Uid{node.second}) && members.get(result, Uid{node.result}) &&
	                    members.may("groupCount", groups);
	if (hasOnePad)
		std::copy_n(node.padBefore, after.count = before.count, node.padAfter);
	node.isFlipped = mode == "CUDNN_CONVOLUTION";
	node.spatial = stride.count;
	return isRead && (node.isFlipped || mode == "CUDNN_CROSS_CORRELATION") && before.count == stride.count &&
	       after.count == stride.count && dilation.count == stride.count;
}

constexpr std::pair<Word, cudnnPointwiseMode_t> pointwiseModes[] = {
#define MODE(name)                                                                                                     \
	{                                                                                                                  \
		"CUDNN_POINTWISE_" #name, CUDNN_POINTWISE_##name                                                               \
	}
    MODE(ADD),         MODE(MUL),        MODE(SUB),      MODE(DIV),
    MODE(MIN),         MODE(MAX),        MODE(POW),      MODE(MOD),
    MODE(ADD_SQUARE),  MODE(SQRT),       MODE(ABS),      MODE(CEIL),
    MODE(COS),         MODE(EXP),        MODE(FLOOR),    MODE(LOG),
    MODE(NEG),         MODE(RSQRT),      MODE(SIN),      MODE(TAN),
    MODE(ERF),         MODE(IDENTITY),   MODE(RELU_FWD), MODE(TANH_FWD),
    MODE(SIGMOID_FWD), MODE(RECIPROCAL), MODE(GELU_FWD), MODE(GELU_APPROX_TANH_FWD),
#undef MODE
};

bool readPointwise(Members &members, GraphNode &node)
{
	Word word;
	if (!members.get("pointwiseMode", word))
		return false;
	const auto *const mode =
	    std::find_if(std::begin(pointwiseModes), std::end(pointwiseModes), [&](auto &it) { return it.first == word; });
	if (mode == std::end(pointwiseModes))
		return false;
	node.pointwise = mode->second;
	node.hasSecond = members.has("B");
	return members.may("alpha1", node.factor[0]) && members.may("alpha2", node.factor[1]) &&
	       members.may("lowerClip", node.lowerClip) && members.may("upperClip", node.upperClip) &&
	       members.may("lowerClipSlope", node.slope) && members.get("X", Uid{node.first}) &&
	       (!node.hasSecond || members.get("B", Uid{node.second})) && members.get("Y", Uid{node.result});
}

#define OPERATION(name) "CUDNN_BACKEND_OPERATION_" name "_DESCRIPTOR"

bool readNode(const Json &json, GraphNode &node)
{
	Members members(json);
	Word operation;
	if (!members.get("operation", operation) || !members.get("mathPrec", node.compute))
		return false;
	if (operation == OPERATION("CONVOLUTION_FORWARD"))
		return node.kind = NodeKind::forward, readConvolution(members, node, "X", "W", "Y") && members.areRead();
	if (operation == OPERATION("CONVOLUTION_BACKWARD_DATA"))
		return node.kind = NodeKind::backwardData, readConvolution(members, node, "dY", "W", "dX") && members.areRead();
	if (operation == OPERATION("CONVOLUTION_BACKWARD_FILTER"))
		return node.kind = NodeKind::backwardFilter,
		       readConvolution(members, node, "X", "dY", "dW") && members.areRead();
	if (operation == OPERATION("MATMUL"))
		return node.kind = NodeKind::matmul, members.get("matA", Uid{node.first}) &&
		                                         members.get("matB", Uid{node.second}) &&
		                                         members.get("matC", Uid{node.result}) && members.areRead();
	return operation == OPERATION("POINTWISE") && readPointwise(members, node) && members.areRead();
}

// Obstacle of a node that readNode() does not understand.
Obstacle obstacleOf(const Json &json)
{
	static constexpr std::pair<Word, Obstacle> operations[] = {
	    {OPERATION("POINTWISE"), Obstacle::elementwise},
	    {OPERATION("REDUCTION"), Obstacle::reduction},
	    {OPERATION("NORM_FORWARD"), Obstacle::normalization},
	    {OPERATION("NORM_BACKWARD"), Obstacle::normalization},
	    {OPERATION("GEN_STATS"), Obstacle::normalization},
	    {OPERATION("BN_FINALIZE_STATISTICS"), Obstacle::normalization},
	    {OPERATION("BN_BWD_WEIGHTS"), Obstacle::normalization},
	    {OPERATION("RESAMPLE_FWD"), Obstacle::pooling},
	    {OPERATION("RESAMPLE_BWD"), Obstacle::pooling}};
	Word operation;
	Members(json).get("operation", operation);
	for (const auto &[name, obstacle] : operations)
		if (operation == name)
			return obstacle;
	return Obstacle::graph;
}

bool readGraph(const Json &json, Graph &graph)
{
	if (!json.is_object() || !json.contains("tensors") || !json.contains("nodes"))
		return false;
	const Json &tensors = json["tensors"], &nodes = json["nodes"];
	if (!tensors.is_array() || !nodes.is_array() || nodes.empty())
		return false;
	for (const Json &each : tensors) {
		GraphTensor tensor;
		if (!readTensor(each, tensor) || tensorOf(graph, tensor.uid))
			return false;
		graph.tensors.push_back(tensor);
	}
	for (const Json &each : nodes) {
		GraphNode node;
		if (!readNode(each, node)) {
			node = {};
			node.kind = NodeKind::other;
			node.obstacle = obstacleOf(each);
		} else if (!tensorOf(graph, node.first) || !tensorOf(graph, node.result) ||
		           (node.hasSecond && !tensorOf(graph, node.second))) {
			return false;
		}
		graph.nodes.push_back(node);
	}
	return true;
}

bool isProduct(const GraphNode &node)
{
	return node.kind <= NodeKind::matmul;
}

Tensor narrowed(const GraphTensor &from)
{
	Tensor tensor;
	tensor.type = from.type;
	tensor.rank = std::min(from.rank, mostDims);
	std::copy_n(from.dims, tensor.rank, tensor.dims);
	std::copy_n(from.strides, tensor.rank, tensor.strides);
	return tensor;
}

bool isNarrow(int64_t value)
{
	return value >= 0 && value <= INT32_MAX;
}

bool setConvolution(const Graph &graph, const GraphNode &node, Convolution &c)
{
	c.direction = static_cast<Direction>(node.kind);
	c.spatial = static_cast<uint8_t>(std::clamp(node.spatial, 0, mostSpatial));
	const auto place = [&](int64_t uid, Tensor &to) {
		to = narrowed(*tensorOf(graph, uid));
		return tensorOf(graph, uid)->rank == c.spatial + 2;
	};
	const bool isData = node.kind == NodeKind::backwardData, isFilter = node.kind == NodeKind::backwardFilter;
	if (node.spatial != c.spatial || !place(node.first, isData ? c.y : c.x) ||
	    !place(node.second, isFilter ? c.y : c.w) ||
	    !place(node.result, isData     ? c.x
	                        : isFilter ? c.w
	                                   : c.y) ||
	    c.w.dims[1] < 1 || c.x.dims[1] % c.w.dims[1] || !isNarrow(c.x.dims[1] / c.w.dims[1]))
		return false;
	c.groups = static_cast<int32_t>(c.x.dims[1] / c.w.dims[1]);
	for (int i = 0; i < c.spatial; i++) {
		if (!isNarrow(node.padBefore[i]) || !isNarrow(node.padAfter[i]) || !isNarrow(node.stride[i]) ||
		    !isNarrow(node.dilation[i]))
			return false;
		c.padBefore[i] = static_cast<int32_t>(node.padBefore[i]);
		c.padAfter[i] = static_cast<int32_t>(node.padAfter[i]);
		c.stride[i] = static_cast<int32_t>(node.stride[i]);
		c.dilation[i] = static_cast<int32_t>(node.dilation[i]);
	}
	c.isFlipped = node.isFlipped;
	c.compute = node.compute;
	return factsOf(c).fits;
}

// True for a product of two batches of matrices. A single matrix may stand for a whole batch of first or second
// operands.
bool isMatmul(const Graph &graph, const GraphNode &node)
{
	const GraphTensor &a = *tensorOf(graph, node.first), &b = *tensorOf(graph, node.second),
	                  &c = *tensorOf(graph, node.result);
	const int rank = c.rank;
	if (rank < 2 || rank > mostDims || a.rank != rank || b.rank != rank)
		return false;
	for (int i = 0; i < rank - 2; i++)
		if ((a.dims[i] != c.dims[i] && a.dims[i] != 1) || (b.dims[i] != c.dims[i] && b.dims[i] != 1))
			return false;
	return a.dims[rank - 2] == c.dims[rank - 2] && a.dims[rank - 1] == b.dims[rank - 2] &&
	       b.dims[rank - 1] == c.dims[rank - 1];
}

// The nodes after a forward convolution in the form of the legacy call: a tensor shaped like the result, a bias, then
// ReLU, each at most once.
struct Following {
	Convolution convolution;
	int64_t source = 0, bias = 0; // uids
	double beta = 0;
};

// A vector of one value for each channel of the result.
bool isBias(const Tensor &added, const Tensor &result)
{
	Tensor wanted = result;
	std::fill_n(wanted.dims, wanted.rank, 1);
	wanted.dims[1] = result.dims[1];
	return added.rank == wanted.rank && added.strides[1] == 1 &&
	       std::equal(wanted.dims, wanted.dims + wanted.rank, added.dims);
}

// Adds a node that reads `sum`. False: it has another form.
bool addNode(Following &following, const Graph &graph, const GraphNode &node, int64_t sum)
{
	Convolution &c = following.convolution;
	const bool hasFactors = node.factor[0] != 1 || node.factor[1] != 1;
	if (node.pointwise == CUDNN_POINTWISE_RELU_FWD) {
		c.activation = Activation::relu, c.propagatesNan = true;
		return !hasFactors && node.lowerClip == 0 && node.slope == 0 &&
		       node.upperClip >= std::numeric_limits<float>::max();
	}
	const bool isSecond = node.hasSecond && node.second == sum;
	const int64_t other = isSecond ? node.first : node.second;
	if (node.pointwise != CUDNN_POINTWISE_ADD || other == sum || tensorOf(graph, other)->isVirtual ||
	    tensorOf(graph, other)->isByValue)
		return false;
	if (!c.hasBias && !hasFactors && isBias(narrowed(*tensorOf(graph, other)), c.y)) {
		c.hasBias = true, following.bias = other;
		return true;
	}
	if (c.hasSource || node.factor[isSecond] != 1)
		return false;
	c.hasSource = true, following.source = other, following.beta = node.factor[!isSecond];
	return true;
}

// Reads the nodes that follow. False: there is another node, or the result is channels-last. Plans with 16-bit operands
// have engines only for that layout, and write the result themselves.
bool readFollowing(KnownGraph &known)
{
	const Graph &graph = known.graph;
	Following following = {known.convolution};
	Convolution &c = following.convolution;
	if (c.direction != Direction::forward)
		return false;
	int64_t sum = known.product->result;
	for (size_t left = graph.nodes.size() - 1; left > 0; left--) {
		const auto reads = [&](const GraphNode &node) { return node.reads(sum); };
		const auto next = std::find_if(graph.nodes.begin(), graph.nodes.end(), reads);
		if (next == graph.nodes.end() || std::find_if(next + 1, graph.nodes.end(), reads) != graph.nodes.end() ||
		    !tensorOf(graph, sum)->isVirtual || c.activation != Activation::none ||
		    !addNode(following, graph, *next, sum))
			return false;
		sum = next->result;
	}
	const auto areLike = [](const Tensor &one, const Tensor &other) {
		return one.rank == other.rank && std::equal(one.dims, one.dims + one.rank, other.dims);
	};
	const auto isSource = [&](const Tensor &tensor) {
		return areLike(tensor, c.y) && std::equal(tensor.strides, tensor.strides + tensor.rank, c.y.strides);
	};
	const Tensor virtualResult = c.y;
	c.y = narrowed(*tensorOf(graph, sum));
	if (tensorOf(graph, sum)->isVirtual || c.y.strides[1] == 1 || !areLike(c.y, virtualResult) ||
	    (c.hasSource && !isSource(narrowed(*tensorOf(graph, following.source)))) || !factsOf(c).fits ||
	    !factsOf(c).isOrderly)
		return false;
	known.convolution = c;
	known.result = sum, known.source = following.source, known.bias = following.bias, known.beta = following.beta;
	return true;
}

// Sets the product if the graph has only one. Returns the obstacle to lowering the other graphs.
Obstacle findProduct(KnownGraph &known)
{
	for (const GraphNode &node : known.graph.nodes) {
		const bool isSecond = isProduct(node) && known.product;
		if (node.kind == NodeKind::other || isSecond) {
			const bool hasProduct = std::exchange(known.product, nullptr);
			return hasProduct ? Obstacle::graph : node.obstacle;
		}
		if (isProduct(node))
			known.product = &node;
	}
	return Obstacle::elementwise;
}

// A virtual tensor of another type counts too: cuDNN ignores that type, but it shows which value the program wants
// rounded.
bool isFloat32(const Graph &graph)
{
	return std::all_of(graph.nodes.begin(), graph.nodes.end(),
	                   [](const GraphNode &node) { return node.compute == Dtype::float32; }) &&
	       std::all_of(graph.tensors.begin(), graph.tensors.end(),
	                   [](const GraphTensor &tensor) { return tensor.type == Dtype::float32; });
}

// Finds the product and the obstacle.
void judge(KnownGraph &known)
{
	const Graph &graph = known.graph;
	known.obstacle = findProduct(known);
	if (!known.product)
		return;
	const GraphNode &product = *known.product;
	const bool isUnderstood =
	    product.kind == NodeKind::matmul ? isMatmul(graph, product) : setConvolution(graph, product, known.convolution);
	const bool hasFollowing = graph.nodes.size() > 1, isFilter = product.kind == NodeKind::backwardFilter;
	// If nodes follow, the result is virtual: beta * result cannot be added to it, and a filter gradient cannot be
	// flipped.
	const bool isComputed =
	    tensorOf(graph, product.first)->isVirtual || tensorOf(graph, product.second)->isVirtual; // by an earlier node
	const bool isOdd = isComputed || (hasFollowing && (product.beta != 0 || (isFilter && product.isFlipped)));
	known.obstacle = isUnderstood && !isOdd ? Obstacle::none : Obstacle::graph;
	if (known.obstacle != Obstacle::none || tensorOf(graph, product.first)->type != Dtype::float32)
		return;
	if (!isFloat32(graph))
		known.obstacle = Obstacle::graph;
	if (known.obstacle != Obstacle::none || product.kind == NodeKind::matmul)
		return;
	known.result = product.result, known.beta = product.beta;
	known.isLegacyCall = !hasFollowing || readFollowing(known);
}

const Json *graphOf(const Json &plan)
{
	Members members(plan);
	int64_t version = 0, schema = 0;
	constexpr int64_t knownSchema = 4, knownVersion = 9;
	return members.get("cudnnVersion", version) && members.get("schemaVersion", schema) &&
	               version / 10000 == knownVersion && schema == knownSchema && members.has("operationGraph")
	           ? &plan["operationGraph"]
	           : nullptr;
}

// Graphs by their text. Neither the map nor its values are destroyed.
using Known = std::unordered_map<std::string, const KnownGraph *>;
Known &known()
{
	static Known *const made = new Known;
	return *made;
}
constinit pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; // never held during vendor calls

} // namespace

const KnownGraph *knownGraph(std::string_view text)
{
	const Json plan = Json::parse(text, nullptr, false); // discarded if it is not JSON
	const Json *const json = graphOf(plan);
	auto *const made = new KnownGraph;
	if (!json || !readGraph(*json, made->graph)) {
		delete made;
		return nullptr;
	}
	judge(*made);
	if (made->product && made->product->kind != NodeKind::matmul)
		made->geometry = numberOf(made->convolution);
	std::string name = json->dump(-1, ' ', false, Json::error_handler_t::replace);
	pthread_mutex_lock(&mutex);
	const auto [place, isNew] = known().try_emplace(std::move(name), made);
	if (isNew)
		made->number = static_cast<uint32_t>(known().size());
	const KnownGraph *const found = place->second;
	pthread_mutex_unlock(&mutex);
	if (!isNew)
		delete made;
	return found;
}

Op describe(const Entry &entry, uint16_t index, const KnownGraph &known, bool isOnTensorCores,
            const VendorEnvironment &environment)
{
	Op op;
	op.entry = index;
	op.library = entry.library;
	op.obstacle = known.obstacle;
	op.graph = known.number;
	if (!known.product)
		return op;
	const GraphNode &product = *known.product;
	const GraphTensor &first = *tensorOf(known.graph, product.first), &second = *tensorOf(known.graph, product.second),
	                  &result = *tensorOf(known.graph, product.result);
	op.a = op.asked = first.type, op.b = second.type, op.out = result.type;
	if (product.kind == NodeKind::matmul) {
		op.batch = 1;
		for (int i = 0; i < result.rank - 2; i++)
			op.batch *= static_cast<int32_t>(result.dims[i]);
		op.kind = op.batch == 1 ? Kind::mm : Kind::bmm;
		op.m = result.dims[result.rank - 2], op.n = result.dims[result.rank - 1], op.k = first.dims[first.rank - 1];
	} else {
		op.geometry = known.geometry;
		setFacts(op, op.geometry ? factsAt(op.geometry) : factsOf(known.convolution));
	}
	if (isLow(op.a))
		op.cause = Cause::half_operands;
	if (const Obstacle obstacle = typeObstacle(op.a, op.b, op.out); obstacle != Obstacle::none)
		op.obstacle = obstacle;
	if (op.obstacle != Obstacle::none)
		return op;
	if (isOnTensorCores && environment.tf32Allowed)
		op.asked = Dtype::tf32, op.cause = Cause::plan_engine;
	if (known.beta == 0)
		op.flags |= flagBetaZero;
	if (product.alpha == 0 || !op.m || !op.n || !op.k)
		op.obstacle = Obstacle::zero_size;
	return op;
}

} // namespace autoamp::op
