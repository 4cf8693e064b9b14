#include "src/lower/dnn_plan.h"

#include "src/base/faults.h"

#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace autoamp::lower {

namespace {

cudnnDataType_t typeOf(op::Dtype type)
{
	switch (type) {
	case op::Dtype::float16:
		return CUDNN_DATA_HALF;
	case op::Dtype::bfloat16:
		return CUDNN_DATA_BFLOAT16;
	default:
		return CUDNN_DATA_FLOAT;
	}
}

// Makes descriptors one after the other. After the first failure, which it stores, the other steps do nothing.
class Maker
{
public:
	explicit Maker(const op::CudnnGraph &cudnn) : cudnn_(cudnn) {}

	DnnDescriptor make(int type)
	{
		if (status)
			return {};
		DnnDescriptor made(cudnn_, type);
		if (!made.get())
			fail(CUDNN_STATUS_ALLOC_FAILED, "cudnnBackendCreateDescriptor");
		return made;
	}
	template <typename Value>
	void set(const DnnDescriptor &of, int name, int type, const Value *values, int64_t count = 1)
	{
		if (!status)
			fail(cudnn_.cudnnBackendSetAttribute(of.get(), name, type, count, values), "cudnnBackendSetAttribute");
	}
	void set(const DnnDescriptor &of, int name, const DnnDescriptor &value)
	{
		void *const descriptor = value.get();
		set(of, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &descriptor);
	}
	void finalize(const DnnDescriptor &descriptor)
	{
		if (!status)
			fail(cudnn_.cudnnBackendFinalize(descriptor.get()), "cudnnBackendFinalize");
	}
	// Returns how many of `count` values the attribute has.
	template <typename Value>
	int64_t get(const DnnDescriptor &of, int name, int type, int64_t count, Value *values)
	{
		int64_t found = 0;
		if (!status)
			fail(cudnn_.cudnnBackendGetAttribute(of.get(), name, type, count, &found, values),
			     "cudnnBackendGetAttribute");
		return status ? 0 : found;
	}
	void fail(op::Status with, const char *in)
	{
		status = with;
		what = in;
	}

	op::Status status = 0;
	const char *what = "";

private:
	const op::CudnnGraph &cudnn_;
};

DnnDescriptor tensor(Maker &maker, const op::GraphTensor &from)
{
	DnnDescriptor made = maker.make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	const cudnnDataType_t type = typeOf(from.type);
	maker.set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, &type);
	maker.set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, from.dims, from.rank);
	maker.set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, from.strides, from.rank);
	maker.set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, &from.uid);
	maker.set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, &from.alignment);
	maker.set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, &from.isVirtual);
	maker.set(made, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, &from.isByValue);
	maker.finalize(made);
	return made;
}

// The operation for each kind of node, and its attributes for the three tensors.
struct Names {
	int operation, description, first, second, result, alpha, beta;
};
constexpr Names names[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
     CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_ATTR_OPERATION_MATMUL_CDESC, 0, 0},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
     0, 0},
};

// Descriptor of the computation, without its tensors.
DnnDescriptor description(Maker &maker, const op::GraphNode &node)
{
	const cudnnDataType_t type = typeOf(node.compute);
	DnnDescriptor made;
	switch (node.kind) {
	case op::NodeKind::matmul:
		made = maker.make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
		maker.set(made, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &type);
		break;
	case op::NodeKind::pointwise: {
		const auto mode = static_cast<cudnnPointwiseMode_t>(node.pointwise);
		made = maker.make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
		maker.set(made, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &mode);
		maker.set(made, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, &type);
		if (mode == CUDNN_POINTWISE_RELU_FWD) {
			maker.set(made, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, &node.lowerClip);
			maker.set(made, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, &node.upperClip);
			maker.set(made, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, &node.slope);
		}
		break;
	}
	default: {
		const cudnnConvolutionMode_t mode = node.isFlipped ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION;
		const int64_t spatial = node.spatial;
		made = maker.make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
		maker.set(made, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, &spatial);
		maker.set(made, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, &type);
		maker.set(made, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &mode);
		maker.set(made, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, node.padBefore, spatial);
		maker.set(made, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, node.padAfter, spatial);
		maker.set(made, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, node.stride, spatial);
		maker.set(made, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, node.dilation, spatial);
	}
	}
	maker.finalize(made);
	return made;
}

// Precompiled engines read a scalar as a float if they sum in fp32, whatever the type of the attribute is: seen in 9.19
// on an H100, where a double of 1 is read as 0.
void setScalar(Maker &maker, const DnnDescriptor &of, int name, double value)
{
	const auto scalar = static_cast<float>(value);
	maker.set(of, name, CUDNN_TYPE_FLOAT, &scalar);
}

// The vendor copies the descriptors that it is given, so only the graph must be kept.
DnnDescriptor operationGraph(Maker &maker, const DnnTarget &target, const op::Graph &graph)
{
	std::vector<DnnDescriptor> tensors, operations;
	std::vector<void *> pointers;
	for (const op::GraphTensor &from : graph.tensors)
		tensors.push_back(tensor(maker, from));
	const auto named = [&](int64_t uid) -> const DnnDescriptor & {
		const auto at =
		    std::find_if(graph.tensors.begin(), graph.tensors.end(), [=](auto &it) { return it.uid == uid; });
		return tensors[at - graph.tensors.begin()];
	};
	for (const op::GraphNode &node : graph.nodes) {
		const Names &name = names[static_cast<unsigned>(node.kind)];
		const DnnDescriptor computed = description(maker, node);
		DnnDescriptor operation = maker.make(name.operation);
		maker.set(operation, name.description, computed);
		maker.set(operation, name.first, named(node.first));
		if (node.hasSecond)
			maker.set(operation, name.second, named(node.second));
		maker.set(operation, name.result, named(node.result));
		if (name.alpha) {
			setScalar(maker, operation, name.alpha, node.alpha);
			setScalar(maker, operation, name.beta, node.beta);
		} else if (node.factor[0] != 1 || node.factor[1] != 1) {
			setScalar(maker, operation, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, node.factor[0]);
			setScalar(maker, operation, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, node.factor[1]);
		}
		maker.finalize(operation);
		pointers.push_back(operation.get());
		operations.push_back(std::move(operation));
	}
	DnnDescriptor made = maker.make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	maker.set(made, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, pointers.data(),
	          static_cast<int64_t>(pointers.size()));
	if (target.handle)
		maker.set(made, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, &target.handle);
	maker.finalize(made);
	return made;
}

// Properties of the engine of a configuration.
struct Notes {
	bool isWanted, isCompiled;
};
Notes notesOf(Maker &maker, const DnnDescriptor &configuration, bool isRaised)
{
	const DnnDescriptor engine = maker.make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
	void *pointer = engine.get();
	maker.get(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &pointer);
	cudnnBackendNumericalNote_t numerical[32];
	cudnnBackendBehaviorNote_t behaviour[32];
	const auto *const numericalEnd =
	    numerical + std::min<int64_t>(32, maker.get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
	                                                32, numerical));
	const auto *const behaviourEnd =
	    behaviour + std::min<int64_t>(32, maker.get(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
	                                                32, behaviour));
	const auto has = [&](cudnnBackendNumericalNote_t note) {
		return std::find(static_cast<const cudnnBackendNumericalNote_t *>(numerical), numericalEnd, note) !=
		       numericalEnd;
	};
	return {has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != isRaised &&
	            !has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) &&
	            !has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) && !has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC),
	        std::find(static_cast<const cudnnBackendBehaviorNote_t *>(behaviour), behaviourEnd,
	                  CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != behaviourEnd};
}

// Returns the best configuration of one list; null: none is suitable.
DnnDescriptor bestOf(Maker &maker, const DnnTarget &target, const DnnDescriptor &graph, cudnnBackendHeurMode_t mode,
                     bool isRaised)
{
	DnnDescriptor heuristics = maker.make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
	maker.set(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
	maker.set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
	if (target.deviceProperties)
		maker.set(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
		          &target.deviceProperties);
	maker.finalize(heuristics);
	int64_t count =
	    maker.get<void *>(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
	std::vector<DnnDescriptor> proposed;
	std::vector<void *> pointers;
	for (int64_t i = 0; i < count; i++) {
		proposed.push_back(maker.make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
		pointers.push_back(proposed.back().get());
	}
	if (count) // only now are configurations left out that the device cannot run
		count = std::min(count, maker.get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
		                                  count, pointers.data()));
	DnnDescriptor compiled;
	for (int64_t i = 0; i < count; i++) {
		const Notes notes = notesOf(maker, proposed[i], isRaised);
		if (maker.status || !notes.isWanted)
			continue;
		if (!notes.isCompiled)
			return std::move(proposed[i]);
		if (!compiled.get())
			compiled = std::move(proposed[i]);
	}
	return compiled;
}

constexpr unsigned bucketCount = 1024;
constinit std::atomic<DnnPlan *> buckets[bucketCount] = {};

std::atomic<DnnPlan *> &bucketOf(const DnnKey &key)
{
	return buckets[(key.geometry * 31 + key.graph) % bucketCount];
}

} // namespace

DnnDescriptor::DnnDescriptor(const op::CudnnGraph &cudnn, int type) : cudnn_(&cudnn)
{
	if (cudnn.cudnnBackendCreateDescriptor(type, &descriptor_))
		descriptor_ = nullptr;
}

DnnDescriptor::~DnnDescriptor()
{
	if (descriptor_ && cudnn_->cudnnBackendDestroyDescriptor(descriptor_))
		base::leaveFault("cudnnBackendDestroyDescriptor");
}

DnnDescriptor::DnnDescriptor(DnnDescriptor &&other) noexcept
    : cudnn_(other.cudnn_), descriptor_(std::exchange(other.descriptor_, nullptr))
{
}

DnnDescriptor &DnnDescriptor::operator=(DnnDescriptor &&other) noexcept
{
	std::swap(cudnn_, other.cudnn_);
	std::swap(descriptor_, other.descriptor_);
	return *this;
}

DnnAnswer chooseEngine(const op::CudnnGraph &cudnn, const DnnTarget &target, const op::Graph &graph, bool isRaised)
{
	Maker maker(cudnn);
	const auto version = static_cast<size_t>(cudnn.cudnnGetVersion());
	for (const op::GraphNode &node : graph.nodes)
		if (node.kind == op::NodeKind::backwardFilter &&
		    op::isDeadly(op::Direction::backwardFilter, graph.nodes.size() > 1, target.computeCapability, version))
			maker.fail(CUDNN_STATUS_NOT_SUPPORTED, "cudnnBackendFinalize");
	const DnnDescriptor operations = operationGraph(maker, target, graph);
	DnnDescriptor chosen;
	for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
		if (!maker.status && !chosen.get())
			chosen = bestOf(maker, target, operations, mode, isRaised);
	if (!maker.status && !chosen.get())
		maker.fail(CUDNN_STATUS_NOT_SUPPORTED, "cudnnBackendGetAttribute");
	return {std::move(chosen), maker.status, maker.what};
}

DnnPlan *makeDnnPlan(const op::CudnnGraph &cudnn, const DnnTarget &target, const op::Graph &graph, bool isRaised,
                     DnnAnswer &answer)
{
	answer = chooseEngine(cudnn, target, graph, isRaised);
	if (answer.status)
		return nullptr;
	Maker maker(cudnn);
	DnnDescriptor made = maker.make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
	maker.set(made, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, &target.handle);
	maker.set(made, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, answer.descriptor);
	maker.finalize(made);
	int64_t bytes = 0;
	maker.get(made, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
	answer = {{}, maker.status, maker.what};
	if (maker.status)
		return nullptr;
	auto *const plan = new DnnPlan;
	plan->plan = std::move(made);
	plan->workspaceSize = static_cast<size_t>(bytes);
	return plan;
}

const DnnPlan *knownPlan(const DnnKey &key)
{
	const DnnPlan *plan = bucketOf(key).load(std::memory_order_acquire);
	while (plan && !(plan->key == key))
		plan = plan->next;
	return plan;
}

// Two threads may each make one. Both are valid; the first in the list is found.
void keepPlan(DnnPlan *plan)
{
	std::atomic<DnnPlan *> &bucket = bucketOf(plan->key);
	plan->next = bucket.load(std::memory_order_relaxed);
	while (!bucket.compare_exchange_weak(plan->next, plan, std::memory_order_release))
		;
}

DnnAnswer execute(const op::CudnnGraph &cudnn, void *handle, const DnnPlan &plan, std::span<const int64_t> uids,
                  std::span<void *const> pointers, void *workspace)
{
	Maker maker(cudnn);
	const DnnDescriptor pack = maker.make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	maker.set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids.data(),
	          static_cast<int64_t>(uids.size()));
	maker.set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers.data(),
	          static_cast<int64_t>(pointers.size()));
	maker.set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &workspace);
	maker.finalize(pack);
	if (!maker.status)
		maker.fail(cudnn.cudnnBackendExecute(handle, plan.plan.get(), pack.get()), "cudnnBackendExecute");
	return {{}, maker.status, maker.what};
}

} // namespace autoamp::lower
