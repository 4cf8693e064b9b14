// Finalize: the checks and results of each descriptor type.
#include "tools/emulated/cudnn/graph/descriptor.h"
#include "tools/emulated/device/core.h"

#include <csignal>
#include <numeric>

namespace emulated::cudnn::graph {

namespace {

// The emulated device as cuDNN describes devices.
constexpr char ownProperties[] =
    R"x({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],"regsPerBlock":65536,)x"
    R"x("multiProcessorCount":132,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":232448,)x"
    R"x("reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)x"
    R"x("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":85899345920,)x"
    R"x("smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,"cudaDeviceId":0,"deviceVer":900,)x"
    R"x("driverVer":13000,"deviceName":"autoamp emulated (h100 constants)"})x";
constexpr int schemaVersion = 4;

using Status = cudnnStatus_t;
constexpr Status success = CUDNN_STATUS_SUCCESS;

Status finishTensor(Descriptor &d)
{
	Edge edge;
	Tensor &tensor = edge.tensor;
	const auto dims = d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), strides = d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
	REFUSE_IF(dims.empty() || dims.size() > CUDNN_DIM_MAX || dims.size() != strides.size(), BAD_PARAM);
	tensor.type = d.get(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
	tensor.rank = static_cast<int>(dims.size());
	std::copy(dims.begin(), dims.end(), tensor.dims);
	std::copy(strides.begin(), strides.end(), tensor.strides);
	REFUSE_IF(*std::min_element(dims.begin(), dims.end()) < 0 || *std::min_element(strides.begin(), strides.end()) < 0,
	          BAD_PARAM);
	edge.alignment = d.get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
	const auto size = static_cast<int64_t>(std::max<size_t>(dnn::sizeOf(tensor.type), 1));
	REFUSE_IF(edge.alignment <= 0 || edge.alignment % size != 0, BAD_PARAM);
	edge.uid = d.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
	edge.isVirtual = d.get<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
	edge.isByValue = d.get<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE);
	edge.vectorCount = d.get<int64_t>(CUDNN_ATTR_TENSOR_VECTOR_COUNT, 1);
	edge.vectorDimension = d.get<int64_t>(CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, -1);
	REFUSE_IF(edge.isByValue && tensor.count() != 1, BAD_PARAM);
	d.put<int>(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {tensor.type});
	d.put<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {edge.uid});
	d.put<char>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, {edge.isVirtual});
	d.put<char>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, {edge.isByValue});
	d.put<int64_t>(CUDNN_ATTR_TENSOR_VECTOR_COUNT, CUDNN_TYPE_INT64, {edge.vectorCount});
	d.put<int64_t>(CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, CUDNN_TYPE_INT64, {edge.vectorDimension});
	d.edges = {edge};
	return success;
}

Status finishConvolution(Descriptor &d)
{
	dnn::Convolution &c = d.node.convolution;
	const auto spatial = d.get<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
	REFUSE_IF(spatial < 1 || spatial > 6, BAD_PARAM);
	c.spatial = static_cast<int>(spatial);
	struct {
		int name;
		int64_t *to, least;
		bool isOptional;
	} const lists[] = {{CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, c.prePad, 0, true},
	                   {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, c.postPad, 0, true},
	                   {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, c.stride, 1, false},
	                   {CUDNN_ATTR_CONVOLUTION_DILATIONS, c.dilation, 1, false}};
	for (const auto &list : lists) {
		const auto values = d.all<int64_t>(list.name);
		REFUSE_IF(d.has(list.name) ? d.countOf(list.name) != spatial : !list.isOptional, BAD_PARAM);
		REFUSE_IF(!values.empty() && *std::min_element(values.begin(), values.end()) < list.least, BAD_PARAM);
		std::copy(values.begin(), values.end(), list.to);
	}
	c.isFlipped = d.get(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CONVOLUTION) == CUDNN_CONVOLUTION;
	d.node.compute = d.get(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
	return success;
}

// How many elements of memory lie between the first and the last one of the tensor, with both; 0: elements overlap.
int64_t extentOf(const Tensor &tensor)
{
	std::vector<int> order(static_cast<size_t>(tensor.rank));
	std::iota(order.begin(), order.end(), 0);
	std::sort(order.begin(), order.end(), [&](int a, int b) { return tensor.strides[a] < tensor.strides[b]; });
	int64_t reach = 0;
	for (int i : order) {
		if (tensor.dims[i] > 1 && tensor.strides[i] <= reach)
			return 0;
		reach += (tensor.dims[i] - 1) * tensor.strides[i];
	}
	return reach + 1;
}

// The finalized tensor of an attribute, as an edge of the operation.
const Edge *edgeOf(Descriptor &d, int name)
{
	const Copy copy = d.link(name);
	if (!copy || !copy->isFinalized)
		return nullptr;
	d.edges.push_back(copy->edges[0]);
	return &copy->edges[0];
}

Status finishConvolutionOf(Descriptor &d, Direction direction, int base)
{
	enum { alpha, beta, description, filter, image, output };
	d.edges.clear();
	const Copy convolution = d.link(base + description);
	const Edge *w = edgeOf(d, base + filter), *x = edgeOf(d, base + image), *y = edgeOf(d, base + output);
	REFUSE_IF(!w || !x || !y || !convolution || !convolution->isFinalized, BAD_PARAM);
	Node &node = d.node = convolution->node;
	dnn::Convolution &c = node.convolution;
	const int64_t *xs = x->tensor.dims, *ws = w->tensor.dims, *ys = y->tensor.dims;
	for (const Edge &edge : d.edges)
		REFUSE_IF(edge.tensor.rank != c.spatial + 2 || !extentOf(edge.tensor) || edge.tensor.count() == 0, BAD_PARAM);
	REFUSE_IF(extentOf(w->tensor) != w->tensor.count(), BAD_PARAM); // a filter has no gaps
	REFUSE_IF(xs[1] % ws[1] != 0 || xs[0] != ys[0] || ys[1] != ws[0], BAD_PARAM);
	c.groups = xs[1] / ws[1];
	REFUSE_IF(ws[0] % c.groups != 0, BAD_PARAM);
	for (int i = 0; i < c.spatial; ++i)
		REFUSE_IF(c.outputExtent(i, xs[i + 2], ws[i + 2]) != ys[i + 2], BAD_PARAM);
	node.kind = Node::Kind::convolution;
	c.direction = direction;
	node.alpha = d.number(base + alpha, 1);
	node.beta = d.number(base + beta, 0);
	node.hasDoubleScalars = d.has(base + alpha) && d.values.at(base + alpha).type == CUDNN_TYPE_DOUBLE;
	const bool isForward = direction == Direction::forward, isData = direction == Direction::backwardData;
	node.first = isData ? w->uid : x->uid;
	node.second = isForward ? w->uid : y->uid;
	node.result = isForward ? y->uid : isData ? x->uid : w->uid;
	return success;
}

Status finishProduct(Descriptor &d)
{
	d.edges.clear();
	const Edge *a = edgeOf(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC), *b = edgeOf(d, CUDNN_ATTR_OPERATION_MATMUL_BDESC),
	           *c = edgeOf(d, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
	REFUSE_IF(!a || !b || !c, NOT_SUPPORTED);
	const int rank = c->tensor.rank;
	REFUSE_IF(a->tensor.rank != rank || b->tensor.rank != rank || rank < 2, NOT_SUPPORTED);
	const int64_t *as = a->tensor.dims, *bs = b->tensor.dims, *cs = c->tensor.dims;
	REFUSE_IF(as[rank - 1] != bs[rank - 2] || as[rank - 2] != cs[rank - 2] || bs[rank - 1] != cs[rank - 1], BAD_PARAM);
	for (int i = 0; i < rank - 2; ++i)
		REFUSE_IF((as[i] != 1 && as[i] != cs[i]) || (bs[i] != 1 && bs[i] != cs[i]), BAD_PARAM);
	const Copy description = d.link(CUDNN_ATTR_OPERATION_MATMUL_DESC);
	REFUSE_IF(description && !description->isFinalized, BAD_PARAM);
	d.node.kind = Node::Kind::product;
	if (description)
		d.node.compute = description->get(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
	d.node.first = a->uid;
	d.node.second = b->uid;
	d.node.result = c->uid;
	return success;
}

Status finishElements(Descriptor &d)
{
	static const Descriptor none{};
	const Copy set = d.link(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
	REFUSE_IF(set && !set->isFinalized, BAD_PARAM);
	const Descriptor &description = set ? *set : none;
	Node &node = d.node;
	node.mode = description.get(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
	node.compute = description.get(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
	if (!isEvaluated(node.mode)) // opaque: no emulated engine supports it
		return success;
	d.edges.clear();
	const bool isBackward = node.mode == CUDNN_POINTWISE_RELU_BWD; // x is the gradient, b the input
	const Edge *x =
	    edgeOf(d, isBackward ? CUDNN_ATTR_OPERATION_POINTWISE_DYDESC : CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
	const Edge *y =
	    edgeOf(d, isBackward ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC : CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
	const Edge *b = isBackward            ? edgeOf(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)
	                : isBinary(node.mode) ? edgeOf(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC)
	                                      : x;
	REFUSE_IF(!x || !y || !b || x->tensor.rank != y->tensor.rank || b->tensor.rank != y->tensor.rank, BAD_PARAM);
	node.kind = Node::Kind::elements;
	node.alpha = d.number(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1);
	node.beta = d.number(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1);
	node.lowerClip = description.number(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, node.lowerClip);
	node.upperClip = description.number(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, node.upperClip);
	node.lowerClipSlope = description.number(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, node.lowerClipSlope);
	for (auto [mode, name] : {std::pair(CUDNN_POINTWISE_ELU_FWD, CUDNN_ATTR_POINTWISE_ELU_ALPHA),
	                          std::pair(CUDNN_POINTWISE_SOFTPLUS_FWD, CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA),
	                          std::pair(CUDNN_POINTWISE_SWISH_FWD, CUDNN_ATTR_POINTWISE_SWISH_BETA)})
		if (mode == node.mode)
			node.parameter = description.number(name, 1);
	node.hasSecond = isBinary(node.mode);
	node.first = x->uid;
	node.second = b->uid;
	node.result = y->uid;
	return success;
}

// An operation without an engine, such as a reduction without a description, can be finalized but stays opaque.
Status finishReducer(Descriptor &d)
{
	const int reducer = d.get<int>(CUDNN_ATTR_REDUCTION_OPERATOR, -1);
	REFUSE_IF(reducer < 0 || reducer > CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS, BAD_PARAM);
	REFUSE_IF(reducer > CUDNN_REDUCE_TENSOR_AMAX, NOT_SUPPORTED);
	d.node.kind = Node::Kind::reduction;
	d.node.reducer = static_cast<cudnnReduceTensorOp_t>(reducer);
	d.node.compute = d.get(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
	d.node.hasSecond = false;
	return success;
}

Status finishReduction(Descriptor &d)
{
	d.edges.clear();
	const Copy description = d.link(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
	const Edge *x = edgeOf(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
	           *y = edgeOf(d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
	REFUSE_IF(!x || !y || x->tensor.rank != y->tensor.rank, BAD_PARAM);
	for (int i = 0; i < x->tensor.rank; ++i)
		REFUSE_IF(y->tensor.dims[i] > x->tensor.dims[i], BAD_PARAM);
	if (description)
		d.node = description->node;
	d.node.first = d.node.second = x->uid;
	d.node.result = y->uid;
	return success;
}

Status finishConcatenation(Descriptor &d)
{
	d.edges.clear();
	const auto axis = d.get<int64_t>(CUDNN_ATTR_OPERATION_CONCAT_AXIS, -1),
	           inPlace = d.get<int64_t>(CUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX, -1);
	REFUSE_IF(axis < 0 || !d.has(CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS), BAD_PARAM);
	const auto &inputs = d.values.at(CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS).copies;
	REFUSE_IF(inPlace < -1 || inPlace >= static_cast<int64_t>(inputs.size()), BAD_PARAM);
	for (const Copy &input : inputs) {
		REFUSE_IF(input->type != CUDNN_BACKEND_TENSOR_DESCRIPTOR || !input->isFinalized, BAD_PARAM);
		d.edges.push_back(input->edges[0]);
		d.node.inputs.push_back(input->edges[0].uid);
	}
	const int rank = d.edges[0].tensor.rank;
	REFUSE_IF(axis >= rank, BAD_PARAM);
	int64_t length = 0;
	for (const Edge &edge : d.edges) {
		REFUSE_IF(edge.tensor.rank != rank, BAD_PARAM);
		length += edge.tensor.dims[axis];
	}
	const Edge *y = edgeOf(d, CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC);
	REFUSE_IF(!y, BAD_PARAM);
	if (y->tensor.rank != rank) // accepted by the real library too
		return success;
	for (const Copy &input : inputs)
		for (int i = 0; i < rank; ++i)
			REFUSE_IF(y->tensor.dims[i] != (i == axis ? length : input->edges[0].tensor.dims[i]), BAD_PARAM);
	d.node.kind = Node::Kind::concatenation;
	d.node.dimension = axis;
	d.node.inPlace = inPlace;
	d.node.result = y->uid;
	return success;
}

Status finishGraph(Descriptor &d)
{
	REFUSE_IF(!d.has(CUDNN_ATTR_OPERATIONGRAPH_OPS), BAD_PARAM);
	if (d.has(CUDNN_ATTR_OPERATIONGRAPH_HANDLE))
		REFUSE_IF(!handleOf(d.get<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE)), BAD_PARAM);
	auto graph = std::make_shared<Graph>();
	bool isKnown = true;
	for (const Copy &operation : d.values.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).copies) {
		for (const Edge &edge : operation->edges)
			graph->edges[edge.uid] = edge;
		graph->nodes.push_back(operation->node);
		isKnown &= operation->node.kind != Node::Kind::opaque;
	}
	REFUSE_IF(isKnown && !arrange(*graph), BAD_PARAM);
	d.put<int64_t>(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, {engineCountOf(*graph)});
	d.graph = std::move(graph);
	return success;
}

// Chooses the device of the properties, or the emulated device without properties.
Status chooseDevice(Descriptor &d, int name)
{
	const Copy properties = d.link(name);
	REFUSE_IF(properties && !properties->isFinalized, BAD_PARAM_NOT_FINALIZED);
	d.properties = properties ? properties->properties : Json::parse(ownProperties);
	d.version = d.properties.at("deviceVer");
	return success;
}

void describe(Descriptor &d, const Engine &engine)
{
	d.engine = engine;
	d.put<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, {engine.index});
	std::vector<int> numerical, behaviour;
	for (auto [letter, note] :
	     {std::pair('t', CUDNN_NUMERICAL_NOTE_TENSOR_CORE),
	      std::pair('r', CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION),
	      std::pair('n', CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC), std::pair('w', CUDNN_NUMERICAL_NOTE_WINOGRAD),
	      std::pair('s', CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP)})
		if (engine.is(letter))
			numerical.push_back(note);
	for (auto [letter, note] : {std::pair('c', CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION),
	                            std::pair('g', CUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API)})
		if (engine.is(letter))
			behaviour.push_back(note);
	d.put(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, numerical);
	d.put(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, behaviour);
	if (engine.tileCount() == 0)
		return;
	auto knob = std::make_shared<Descriptor>();
	knob->type = CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR;
	knob->isFinalized = true;
	knob->put<int>(CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, {CUDNN_KNOB_TYPE_TILE_SIZE});
	for (auto [name, value] : {std::pair(CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, int64_t{0}),
	                           std::pair(CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, engine.tileCount() - 1),
	                           std::pair(CUDNN_ATTR_KNOB_INFO_STRIDE, int64_t{1})})
		knob->put<int64_t>(name, CUDNN_TYPE_INT64, {value});
	d.values[CUDNN_ATTR_ENGINE_KNOB_INFO] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {knob}};
}

// An engine of a graph, as in the heuristics' list.
Copy engineOf(const std::shared_ptr<const Graph> &graph, int version, const Json &properties, const Engine &one)
{
	auto engine = std::make_shared<Descriptor>();
	engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
	engine->graph = graph;
	engine->version = version;
	engine->properties = properties;
	engine->isFinalized = true;
	describe(*engine, one);
	return engine;
}

// Pre-compiled tensor core engines need NHWC; they convert other layouts in the workspace.
size_t workspaceOf(const Graph &graph, const Engine &engine)
{
	if (engine.isRuntimeCompiled() || !engine.usesTensorCores())
		return 0;
	size_t bytes = engine.tile ? 1048771 : 131; // the size that many engines of the real library need; they differ by
	                                            // their knobs
	for (const auto &[uid, edge] : graph.edges)
		if (!edge.isVirtual && edge.tensor.rank > 3 && edge.tensor.strides[1] != 1)
			bytes += static_cast<size_t>(edge.tensor.count()) * dnn::sizeOf(edge.tensor.type);
	return bytes;
}

// Sets the engine and its tile, and the workspace of a plan with both.
void configure(Descriptor &config, const Copy &engine, int64_t tile)
{
	config.engine = engine->engine;
	config.engine.tile = tile;
	config.values[CUDNN_ATTR_ENGINECFG_ENGINE] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, {}, {engine}};
	config.put<int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
	                    {static_cast<int64_t>(workspaceOf(*engine->graph, config.engine))});
}

// An engine with a tile, as in the heuristics' list.
Copy configOf(const Copy &engine, int64_t tile)
{
	auto config = std::make_shared<Descriptor>();
	config->type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
	config->isFinalized = true;
	configure(*config, engine, tile);
	return config;
}

Status finishHeuristic(Descriptor &d)
{
	const Copy graph = d.link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
	REFUSE_IF(!graph, BAD_PARAM);
	REFUSE_IF(!graph->isFinalized, BAD_PARAM_NOT_FINALIZED);
	if (Status status = chooseDevice(d, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP))
		return status;
	// The real heuristics divide by zero for a fused filter gradient on GPUs since Hopper: seen in 9.10.2 and in 9.13
	// to 9.18.1.
	const Graph &asked = *graph->graph;
	const auto isFilterGradient = [](const Node &node) {
		return node.kind == Node::Kind::convolution && node.convolution.direction == Direction::backwardFilter;
	};
	if (cudnnGetVersion() < 91900 && d.version >= 900 && asked.nodes.size() > 1 &&
	    std::any_of(asked.nodes.begin(), asked.nodes.end(), isFilterGradient))
		raise(SIGFPE);
	std::vector<Engine> engines = enginesFor(asked, d.version);
	const auto middle =
	    std::stable_partition(engines.begin(), engines.end(), [](const Engine &one) { return !one.isFallback; });
	if (d.get(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A) == CUDNN_HEUR_MODE_FALLBACK)
		std::rotate(engines.begin(), middle, engines.end()); // first the engines of this mode, then those of mode A
	else
		engines.erase(middle, engines.end());
	Value &results = d.values[CUDNN_ATTR_ENGINEHEUR_RESULTS] = {CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, {}, {}};
	for (const Engine &one : engines) {
		const Copy engine = engineOf(graph->graph, d.version, d.properties, one);
		for (int64_t tile = 0; tile == 0 || tile < one.tileCount(); ++tile)
			results.copies.push_back(configOf(engine, tile));
	}
	results.count = static_cast<int64_t>(results.copies.size());
	return success;
}

Status finishEngine(Descriptor &d)
{
	const Copy graph = d.link(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
	REFUSE_IF(!graph, BAD_PARAM_NULL_POINTER);
	REFUSE_IF(!graph->isFinalized, BAD_PARAM_NOT_FINALIZED);
	if (Status status = chooseDevice(d, CUDNN_ATTR_ENGINE_DEVICEPROP))
		return status;
	const auto index = d.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1);
	for (const Engine &one : enginesFor(*graph->graph, d.version))
		if (one.index == index) {
			d.graph = graph->graph;
			describe(d, one);
			return success;
		}
	return refuse(CUDNN_STATUS_NOT_SUPPORTED, "no such engine for this graph and device");
}

Status finishConfig(Descriptor &d)
{
	const Copy engine = d.link(CUDNN_ATTR_ENGINECFG_ENGINE);
	REFUSE_IF(!engine, BAD_PARAM);
	REFUSE_IF(!engine->isFinalized, BAD_PARAM_NOT_FINALIZED);
	int64_t tile = 0;
	if (d.has(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES))
		for (const Copy &choice : d.values.at(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES).copies) {
			tile = choice->get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, -1);
			REFUSE_IF(choice->get<int>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, -1) != CUDNN_KNOB_TYPE_TILE_SIZE || tile < 0 ||
			              tile >= engine->engine.tileCount(),
			          NOT_SUPPORTED);
		}
	configure(d, engine, tile);
	return success;
}

Status finishPlan(Descriptor &d)
{
	auto plan = std::make_shared<Plan>();
	const auto handle = d.get<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
	REFUSE_IF(handle && !handleOf(handle), BAD_PARAM);
	Json properties;
	if (const Copy config = d.link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)) {
		REFUSE_IF(!config->isFinalized, BAD_PARAM_NOT_FINALIZED);
		const Copy engine = config->link(CUDNN_ATTR_ENGINECFG_ENGINE);
		plan->graph = engine->graph;
		plan->engine = engine->engine;
		plan->engine.tile = config->engine.tile;
		plan->version = engine->version;
		properties = engine->properties;
	} else {
		REFUSE_IF(!d.has(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) || !handle, BAD_PARAM);
		const auto text = d.all<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
		const Json json = Json::parse(text.begin(), std::find(text.begin(), text.end(), '\0'), nullptr, false);
		REFUSE_IF(!json.is_object() || !json.contains("operationGraph") || !json.contains("engine"), BAD_PARAM);
		REFUSE_IF(json.value("cudnnVersion", 0) != CUDNN_VERSION || json.value("schemaVersion", 0) != schemaVersion,
		          SERIALIZATION_VERSION_MISMATCH);
		plan->graph = graphOf(json["operationGraph"]);
		REFUSE_IF(!plan->graph, BAD_PARAM);
		properties = Json::parse(ownProperties);
		plan->version = json["engine"].value("smVersion", 0);
		REFUSE_IF(plan->version != properties.at("deviceVer"), NOT_SUPPORTED_ARCH_MISMATCH);
		plan->engine.index = -1;
		for (const Engine &one : enginesFor(*plan->graph, plan->version))
			if (one.index == json["engine"].value("engineId", int64_t{-1}))
				plan->engine = one;
		REFUSE_IF(plan->engine.index < 0, NOT_SUPPORTED);
		plan->engine.tile = json["engine"].value("/knobChoices/CUDNN_KNOB_TYPE_TILE_SIZE"_json_pointer, int64_t{0});
		// cudnn-frontend reads the engine and its notes from here.
		d.values[CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG] = {
		    CUDNN_TYPE_BACKEND_DESCRIPTOR,
		    1,
		    {},
		    {configOf(engineOf(plan->graph, plan->version, properties, plan->engine), plan->engine.tile)}};
	}
	Json engine{{"engineId", plan->engine.index}, {"smVersion", plan->version}, {"knobChoices", Json::object()}};
	if (plan->engine.tileCount())
		engine["knobChoices"]["CUDNN_KNOB_TYPE_TILE_SIZE"] = plan->engine.tile;
	if (plan->engine.isRuntimeCompiled()) {
		void *library = nullptr; // loads the compiled library
		REFUSE_IF(emulated::loadLibrary(&library) != cudaSuccess, EXECUTION_FAILED_CUDA_DRIVER);
		emulated::unloadLibrary(library);
		engine["payload"] = {{"kernels", {{{"kernelName", "autoamp_emulated"}, {"cubin", ""}}}}};
	}
	plan->workspace = workspaceOf(*plan->graph, plan->engine);
	const std::string text = Json{
	    {"cudnnVersion", CUDNN_VERSION},
	    {"schemaVersion", schemaVersion},
	    {"operationGraph", jsonOf(*plan->graph)},
	    {"GPUProfile", properties},
	    {"engine", engine}}.dump();
	d.put(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, std::vector<char>(text.begin(), text.end()));
	d.put<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, {static_cast<int64_t>(plan->workspace)});
	d.plan = std::move(plan);
	return success;
}

Status finishProperties(Descriptor &d)
{
	const Json own = Json::parse(ownProperties);
	if (d.has(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)) {
		const auto text = d.all<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
		d.properties = Json::parse(text.begin(), std::find(text.begin(), text.end(), '\0'), nullptr, false);
		REFUSE_IF(!d.properties.is_object(), BAD_PARAM);
		for (const auto &[key, value] : own.items())
			REFUSE_IF(!d.properties.contains(key) || d.properties[key].type_name() != std::string(value.type_name()),
			          BAD_PARAM);
	} else {
		REFUSE_IF(!d.has(CUDNN_ATTR_DEVICEPROP_DEVICE_ID) && !d.has(CUDNN_ATTR_DEVICEPROP_HANDLE), NOT_INITIALIZED);
		REFUSE_IF(d.get<int>(CUDNN_ATTR_DEVICEPROP_DEVICE_ID) >= emulated::deviceCount(), BAD_PARAM);
		const std::string text = ownProperties;
		d.properties = own;
		d.put(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, std::vector<char>(text.begin(), text.end()));
	}
	return success;
}

} // namespace

Status finish(Descriptor &d)
{
	switch (d.type) {
	case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
		return finishTensor(d);
	case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
		return finishConvolution(d);
	case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
		return finishConvolutionOf(d, Direction::forward, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
	case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
		return finishConvolutionOf(d, Direction::backwardData, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
	case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
		return finishConvolutionOf(d, Direction::backwardFilter, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
	case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
		return finishProduct(d);
	case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
		return finishElements(d);
	case CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR:
		return finishConcatenation(d);
	case CUDNN_BACKEND_REDUCTION_DESCRIPTOR:
		return finishReducer(d);
	case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
		return finishReduction(d);
	case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
		return finishGraph(d);
	case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
		return finishHeuristic(d);
	case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
		return finishEngine(d);
	case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
		return finishConfig(d);
	case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
		return finishPlan(d);
	case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
		return finishProperties(d);
	case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
		REFUSE_IF(d.countOf(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) != d.countOf(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS),
		          BAD_PARAM);
		return success;
	default: // other types have no checks; operations of these types have no engine
		return success;
	}
}

} // namespace emulated::cudnn::graph
