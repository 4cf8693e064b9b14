#include "tools/emulated/cudnn/graph/graph.h"

#include <algorithm>
#include <set>

namespace emulated::cudnn::graph {

namespace {

template <typename T>
struct Name {
	T value;
	const char *name;
};
#define NAMED(word) {word, #word},
constexpr Name<cudnnDataType_t> typeNames[] = {
    NAMED(CUDNN_DATA_FLOAT) NAMED(CUDNN_DATA_DOUBLE) NAMED(CUDNN_DATA_HALF) NAMED(CUDNN_DATA_BFLOAT16)
        NAMED(CUDNN_DATA_INT8) NAMED(CUDNN_DATA_INT32) NAMED(CUDNN_DATA_INT64) NAMED(CUDNN_DATA_UINT8)
            NAMED(CUDNN_DATA_BOOLEAN) NAMED(CUDNN_DATA_FP8_E4M3) NAMED(CUDNN_DATA_FP8_E5M2)};
constexpr Name<cudnnPointwiseMode_t> modeNames[] = {
    NAMED(CUDNN_POINTWISE_ADD) NAMED(CUDNN_POINTWISE_MUL) NAMED(CUDNN_POINTWISE_SUB) NAMED(CUDNN_POINTWISE_DIV)
        NAMED(CUDNN_POINTWISE_MAX) NAMED(CUDNN_POINTWISE_MIN) NAMED(CUDNN_POINTWISE_ABS) NAMED(CUDNN_POINTWISE_IDENTITY)
            NAMED(CUDNN_POINTWISE_RELU_FWD) NAMED(CUDNN_POINTWISE_TANH_FWD) NAMED(CUDNN_POINTWISE_SIGMOID_FWD)
                NAMED(CUDNN_POINTWISE_GELU_FWD) NAMED(CUDNN_POINTWISE_GELU_APPROX_TANH_FWD)
                    NAMED(CUDNN_POINTWISE_ELU_FWD) NAMED(CUDNN_POINTWISE_SWISH_FWD) NAMED(CUDNN_POINTWISE_SOFTPLUS_FWD)
                        NAMED(CUDNN_POINTWISE_RELU_BWD)};
constexpr Name<cudnnReduceTensorOp_t> reducerNames[] = {
    NAMED(CUDNN_REDUCE_TENSOR_ADD) NAMED(CUDNN_REDUCE_TENSOR_MUL) NAMED(CUDNN_REDUCE_TENSOR_MIN)
        NAMED(CUDNN_REDUCE_TENSOR_MAX) NAMED(CUDNN_REDUCE_TENSOR_AMAX)};
#undef NAMED
constexpr Name<Direction> operationNames[] = {
    {Direction::forward, "CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR"},
    {Direction::backwardData, "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR"},
    {Direction::backwardFilter, "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR"}};
constexpr char elementsName[] = "CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR";
constexpr char productName[] = "CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR";
constexpr char concatenationName[] = "CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR";
constexpr char reductionName[] = "CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR";
constexpr char flippedName[] = "CUDNN_CONVOLUTION", straightName[] = "CUDNN_CROSS_CORRELATION";

template <typename T, size_t count>
std::string nameOf(const Name<T> (&names)[count], T value)
{
	for (const auto &row : names)
		if (row.value == value)
			return row.name;
	return std::to_string(static_cast<int>(value));
}

template <typename T, size_t count>
bool find(const Name<T> (&names)[count], const Json &name, T &value)
{
	for (const auto &row : names)
		if (name == row.name) {
			value = row.value;
			return true;
		}
	return false;
}

const char *parameterOf(const Node &node)
{
	const bool isBeta = node.mode == CUDNN_POINTWISE_SWISH_FWD || node.mode == CUDNN_POINTWISE_SOFTPLUS_FWD;
	return isBeta ? "beta" : node.mode == CUDNN_POINTWISE_ELU_FWD ? "alpha" : nullptr;
}

// The names of a node's three tensors, in the order of the JSON text.
struct Roles {
	const char *name;
	int64_t Node::*uid;
};
std::vector<Roles> rolesOf(const Node &node)
{
	switch (node.kind) {
	case Node::Kind::product:
		return {{"matA", &Node::first}, {"matB", &Node::second}, {"matC", &Node::result}};
	case Node::Kind::convolution:
		if (node.convolution.direction == Direction::forward)
			return {{"X", &Node::first}, {"W", &Node::second}, {"Y", &Node::result}};
		if (node.convolution.direction == Direction::backwardData)
			return {{"dX", &Node::result}, {"W", &Node::first}, {"dY", &Node::second}};
		return {{"X", &Node::first}, {"dW", &Node::result}, {"dY", &Node::second}};
	case Node::Kind::concatenation:
		return {{"outputDesc", &Node::result}};
	default:
		if (node.mode == CUDNN_POINTWISE_RELU_BWD)
			return {{"X", &Node::second}, {"dX", &Node::result}, {"dY", &Node::first}};
		if (!node.hasSecond)
			return {{"X", &Node::first}, {"Y", &Node::result}};
		return {{"X", &Node::first}, {"Y", &Node::result}, {"B", &Node::second}};
	}
}

Json dimsOf(const int64_t *values, int count)
{
	return std::vector<int64_t>(values, values + count);
}

bool read(const Json &values, int64_t *to, int most, int &count)
{
	const auto found = values.get<std::vector<int64_t>>();
	count = static_cast<int>(found.size());
	if (count > most)
		return false;
	std::copy(found.begin(), found.end(), to);
	return true;
}

Json jsonOf(const Node &node)
{
	Json json;
	const dnn::Convolution &c = node.convolution;
	switch (node.kind) {
	case Node::Kind::convolution:
		json["operation"] = nameOf(operationNames, c.direction);
		json["mode"] = c.isFlipped ? flippedName : straightName;
		json["mathPrec"] = nameOf(typeNames, node.compute);
		json["alpha"] = node.alpha;
		json["beta"] = node.beta;
		if (std::equal(c.prePad, c.prePad + c.spatial, c.postPad)) {
			json["pad"] = dimsOf(c.prePad, c.spatial);
		} else {
			json["pad_upper"] = dimsOf(c.postPad, c.spatial);
			json["pad_lower"] = dimsOf(c.prePad, c.spatial);
		}
		json["stride"] = dimsOf(c.stride, c.spatial);
		json["dilation"] = dimsOf(c.dilation, c.spatial);
		break;
	case Node::Kind::product:
		json["operation"] = productName;
		json["mathPrec"] = nameOf(typeNames, node.compute);
		break;
	case Node::Kind::concatenation:
		json["operation"] = concatenationName;
		json["axis"] = node.dimension;
		json["inplaceIndex"] = node.inPlace;
		for (const int64_t uid : node.inputs)
			json["inputDescs"].push_back(std::to_string(uid));
		break;
	case Node::Kind::reduction:
		json["operation"] = reductionName;
		json["reductionOp"] = nameOf(reducerNames, node.reducer);
		json["mathPrec"] = nameOf(typeNames, node.compute);
		json["isDeterministic"] = false;
		break;
	default:
		json["operation"] = elementsName;
		json["pointwiseMode"] = nameOf(modeNames, node.mode);
		json["mathPrec"] = nameOf(typeNames, node.compute);
		if (node.mode == CUDNN_POINTWISE_RELU_FWD || node.mode == CUDNN_POINTWISE_RELU_BWD) {
			json["upperClip"] = node.upperClip;
			json["lowerClip"] = node.lowerClip;
			json["lowerClipSlope"] = node.lowerClipSlope;
		}
		if (const char *parameter = parameterOf(node))
			json[parameter] = node.parameter;
		json["alpha1"] = node.alpha;
		json["alpha2"] = node.beta;
	}
	for (const Roles &role : rolesOf(node))
		json[role.name] = std::to_string(node.*role.uid);
	if (node.kind == Node::Kind::convolution && c.groups > 1)
		json["groupCount"] = c.groups;
	return json;
}

bool read(const Json &json, Node &node)
{
	dnn::Convolution &c = node.convolution;
	const Json &operation = json.at("operation");
	if (find(operationNames, operation, c.direction)) {
		node.kind = Node::Kind::convolution;
		c.isFlipped = json.at("mode") == flippedName;
		node.alpha = json.at("alpha");
		node.beta = json.at("beta");
		c.groups = json.value("groupCount", int64_t{1});
		int count = 0;
		const bool isEven = json.contains("pad");
		if (!read(json.at("stride"), c.stride, 6, c.spatial) || !read(json.at("dilation"), c.dilation, 6, count) ||
		    !read(json.at(isEven ? "pad" : "pad_lower"), c.prePad, 6, count) ||
		    !read(json.at(isEven ? "pad" : "pad_upper"), c.postPad, 6, count))
			return false;
	} else if (operation == productName) {
		node.kind = Node::Kind::product;
	} else if (operation == concatenationName) {
		node.kind = Node::Kind::concatenation;
		node.dimension = json.at("axis");
		node.inPlace = json.at("inplaceIndex");
		for (const Json &uid : json.at("inputDescs"))
			node.inputs.push_back(std::stoll(uid.get<std::string>()));
	} else if (operation == reductionName) {
		node.kind = Node::Kind::reduction;
		node.hasSecond = false;
		if (!find(reducerNames, json.at("reductionOp"), node.reducer))
			return false;
	} else if (operation == elementsName && find(modeNames, json.at("pointwiseMode"), node.mode)) {
		node.kind = Node::Kind::elements;
		node.hasSecond = isBinary(node.mode);
		node.alpha = json.at("alpha1");
		node.beta = json.at("alpha2");
		node.lowerClip = json.value("lowerClip", node.lowerClip);
		node.upperClip = json.value("upperClip", node.upperClip);
		node.lowerClipSlope = json.value("lowerClipSlope", node.lowerClipSlope);
		if (const char *parameter = parameterOf(node))
			node.parameter = json.at(parameter);
	} else {
		return false;
	}
	for (const Roles &role : rolesOf(node))
		node.*role.uid = std::stoll(json.at(role.name).get<std::string>());
	if (!node.hasSecond)
		node.second = node.first;
	return node.kind == Node::Kind::concatenation || find(typeNames, json.at("mathPrec"), node.compute);
}

bool isBias(const Tensor &tensor)
{
	return tensor.count() == tensor.dims[1] && tensor.count() > 1;
}

// Returns true for: the convolution's result, plus a tensor of the same dimensions (optional), plus a bias, then an
// activation (optional). The residual must be the second operand; the bias may be either.
bool isBiased(const Graph &graph)
{
	const auto &nodes = graph.nodes;
	if (nodes[0].kind != Node::Kind::convolution || nodes[0].convolution.direction != Direction::forward)
		return false;
	int64_t sum = nodes[0].result;
	size_t at = 1;
	const auto isSum = [&](const Node &node) {
		return node.mode == CUDNN_POINTWISE_ADD && (node.first == sum || node.second == sum);
	};
	const auto addsBias = [&](const Node &node) {
		return isSum(node) && isBias(graph.tensor(node.first == sum ? node.second : node.first));
	};
	if (nodes.size() > 2 && !addsBias(nodes[1])) {
		if (!isSum(nodes[1]) || nodes[1].first != sum || !graph.tensor(nodes[1].second).hasSameDims(graph.tensor(sum)))
			return false;
		sum = nodes[1].result;
		at = 2;
	}
	if (!addsBias(nodes[at]))
		return false;
	const auto isFused = [](cudnnPointwiseMode_t mode) {
		return mode == CUDNN_POINTWISE_RELU_FWD || mode == CUDNN_POINTWISE_TANH_FWD ||
		       mode == CUDNN_POINTWISE_SIGMOID_FWD || mode == CUDNN_POINTWISE_ELU_FWD;
	};
	return nodes.size() == at + 1 ||
	       (nodes.size() == at + 2 && isFused(nodes[at + 1].mode) && nodes[at + 1].first == nodes[at].result);
}

} // namespace

Pattern patternOf(const Graph &graph)
{
	const auto isPlain = [](const Node &node) { return node.kind == Node::Kind::elements; };
	const auto operation = std::find_if_not(graph.nodes.begin(), graph.nodes.end(), isPlain);
	if (operation == graph.nodes.end())
		return Pattern::elements;
	const bool isConvolution = operation->kind == Node::Kind::convolution;
	if (isConvolution && graph.nodes.size() == 2 && graph.nodes[1].kind == Node::Kind::concatenation)
		return Pattern::concatenated;
	if (operation->kind == Node::Kind::reduction && graph.nodes.size() == 1)
		return Pattern::reduction;
	if ((!isConvolution && operation->kind != Node::Kind::product) ||
	    std::find_if_not(operation + 1, graph.nodes.end(), isPlain) != graph.nodes.end())
		return Pattern::other;
	if (graph.nodes.size() == 1)
		return isConvolution ? Pattern::convolution : Pattern::product;
	if (isBiased(graph))
		return Pattern::biased;
	return Pattern::chain;
}

const Node &operationOf(const Graph &graph)
{
	const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
	                                [](const Node &node) { return node.kind != Node::Kind::elements; });
	return found == graph.nodes.end() ? graph.nodes.front() : *found;
}

std::ptrdiff_t prologueOf(const Graph &graph)
{
	const Node &operation = operationOf(graph);
	const bool isComputed = graph.edges.at(operation.first).isVirtual || graph.edges.at(operation.second).isVirtual;
	return isComputed ? &operation - graph.nodes.data() : 0;
}

int64_t engineCountOf(const Graph &graph)
{
	constexpr int64_t ofDirection[] = {81, 85, 75};
	switch (patternOf(graph)) {
	case Pattern::convolution:
		return ofDirection[static_cast<int>(graph.nodes[0].convolution.direction)];
	case Pattern::biased:
		return 61;
	case Pattern::elements:
	case Pattern::reduction:
		return 3;
	case Pattern::other:
		return 0;
	default:
		return 11;
	}
}

bool isActivation(const Node &node)
{
	return node.kind == Node::Kind::elements && node.mode >= CUDNN_POINTWISE_RELU_FWD &&
	       node.mode < CUDNN_POINTWISE_RELU_BWD;
}

bool isEvaluated(cudnnPointwiseMode_t mode)
{
	return std::any_of(std::begin(modeNames), std::end(modeNames), [=](const auto &row) { return row.value == mode; });
}

bool isBinary(cudnnPointwiseMode_t mode)
{
	return mode < CUDNN_POINTWISE_ABS || mode == CUDNN_POINTWISE_RELU_BWD;
}

std::vector<int64_t> Node::sources() const
{
	if (kind == Kind::concatenation)
		return inputs;
	return hasSecond ? std::vector{first, second} : std::vector{first};
}

bool arrange(Graph &graph)
{
	std::set<int64_t> unwritten;
	for (const Node &node : graph.nodes)
		if (!unwritten.insert(node.result).second)
			return false;
	std::vector<Node> ordered;
	while (!graph.nodes.empty()) {
		const auto next = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node &node) {
			const auto sources = node.sources();
			return std::none_of(sources.begin(), sources.end(), [&](int64_t uid) { return unwritten.count(uid) != 0; });
		});
		if (next == graph.nodes.end())
			return false;
		unwritten.erase(next->result);
		ordered.push_back(*next);
		graph.nodes.erase(next);
	}
	graph.nodes = std::move(ordered);
	return true;
}

Json jsonOf(const Graph &graph)
{
	const auto mode = [&]() -> const char * {
		constexpr const char *ofDirection[] = {"CONV_FORWARD", "CONV_BWD_DATA", "CONV_BWD_FILTER"};
		switch (patternOf(graph)) {
		case Pattern::convolution:
			return ofDirection[static_cast<int>(graph.nodes[0].convolution.direction)];
		case Pattern::biased:
			return "CONV_ADD_BIAS_ACT";
		case Pattern::product:
			return "BLAS_MATMUL";
		case Pattern::elements:
		case Pattern::reduction:
			return "GENERIC_POINTWISE_FUSION";
		default:
			return operationOf(graph).kind == Node::Kind::product ? "BLAS_MATMUL" : "GENERIC_CONV_FUSION";
		}
	};
	Json tensors = Json::array(), nodes = Json::array();
	for (const auto &[uid, edge] : graph.edges)
		tensors.push_back({{"name", std::to_string(uid)},
		                   {"dataType", nameOf(typeNames, edge.tensor.type)},
		                   {"dim", dimsOf(edge.tensor.dims, edge.tensor.rank)},
		                   {"stride", dimsOf(edge.tensor.strides, edge.tensor.rank)},
		                   {"isVirtual", edge.isVirtual},
		                   {"isByValue", edge.isByValue},
		                   {"vectCount", edge.vectorCount},
		                   {"vectDim", edge.vectorDimension},
		                   {"ptrAlignment", edge.alignment},
		                   {"reordering", "CUDNN_TENSOR_REORDERING_NONE"}});
	for (const Node &node : graph.nodes)
		nodes.push_back(jsonOf(node));
	return {{"finalizeMode", mode()}, {"tensors", tensors}, {"nodes", nodes}};
}

std::shared_ptr<const Graph> graphOf(const Json &json)
try {
	auto graph = std::make_shared<Graph>();
	for (const Json &one : json.at("tensors")) {
		Edge edge;
		edge.uid = std::stoll(one.at("name").get<std::string>());
		edge.isVirtual = one.at("isVirtual");
		edge.isByValue = one.at("isByValue");
		edge.alignment = one.at("ptrAlignment");
		int rank = 0;
		if (!find(typeNames, one.at("dataType"), edge.tensor.type) ||
		    !read(one.at("dim"), edge.tensor.dims, CUDNN_DIM_MAX, edge.tensor.rank) ||
		    !read(one.at("stride"), edge.tensor.strides, CUDNN_DIM_MAX, rank) || rank != edge.tensor.rank)
			return nullptr;
		graph->edges[edge.uid] = edge;
	}
	for (const Json &one : json.at("nodes")) {
		Node node;
		if (!read(one, node) || !graph->edges.count(node.result))
			return nullptr;
		for (const int64_t uid : node.sources())
			if (!graph->edges.count(uid))
				return nullptr;
		graph->nodes.push_back(node);
	}
	return arrange(*graph) ? graph : nullptr;
} catch (const std::exception &) { // an exception of nlohmann::json for an invalid text
	return nullptr;
}

} // namespace emulated::cudnn::graph
