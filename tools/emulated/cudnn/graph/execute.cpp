// Runs plans. The variant pack is checked during the call; the rest happens when the stream runs the work.
#include "tools/emulated/cudnn/graph/descriptor.h"
#include "tools/emulated/device/core.h"

#include <bit>
#include <chrono>
#include <cmath>

namespace emulated::cudnn::graph {

namespace {

using Dense = std::vector<float>;

float apply(const Node &node, float x, float b)
{
	const auto parameter = static_cast<float>(node.parameter);
	constexpr float half = 0.5F, rootHalf = 0.70710678F, rootTwoOverPi = 0.79788456F, cubic = 0.044715F;
	switch (node.mode) {
	case CUDNN_POINTWISE_ADD:
		return x + b;
	case CUDNN_POINTWISE_MUL:
		return x * b;
	case CUDNN_POINTWISE_SUB:
		return x - b;
	case CUDNN_POINTWISE_DIV:
		return x / b;
	case CUDNN_POINTWISE_MAX:
		return std::fmax(x, b);
	case CUDNN_POINTWISE_MIN:
		return std::fmin(x, b);
	case CUDNN_POINTWISE_ABS:
		return std::fabs(x);
	case CUDNN_POINTWISE_RELU_FWD: {
		const auto lower = static_cast<float>(node.lowerClip);
		const double upper = node.upperClip;
		return x < lower   ? lower + static_cast<float>(node.lowerClipSlope) * (x - lower)
		       : x > upper ? static_cast<float>(upper)
		                   : x;
	}
	case CUDNN_POINTWISE_RELU_BWD: // x is the gradient, b the input
		return b <= static_cast<float>(node.lowerClip) ? static_cast<float>(node.lowerClipSlope) * x
		       : b > node.upperClip                    ? 0
		                                               : x;
	case CUDNN_POINTWISE_TANH_FWD:
		return std::tanh(x);
	case CUDNN_POINTWISE_SIGMOID_FWD:
		return 1 / (1 + std::exp(-x));
	case CUDNN_POINTWISE_GELU_FWD:
		return half * x * (1 + std::erf(x * rootHalf));
	case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
		return half * x * (1 + std::tanh(rootTwoOverPi * (x + cubic * x * x * x)));
	case CUDNN_POINTWISE_ELU_FWD:
		return x > 0 ? x : parameter * std::expm1(x);
	case CUDNN_POINTWISE_SWISH_FWD:
		return x / (1 + std::exp(-parameter * x));
	case CUDNN_POINTWISE_SOFTPLUS_FWD:
		return std::log1p(std::exp(parameter * x)) / parameter;
	default: // IDENTITY
		return x;
	}
}

// The index in `part` for index `index` in `whole`. `part` is broadcast: it has extent 1 in some dimensions.
size_t indexIn(const Tensor &part, const Tensor &whole, size_t index)
{
	auto rest = static_cast<int64_t>(index);
	int64_t at = 0, stride = 1;
	for (int d = whole.rank - 1; d >= 0; --d) {
		at += part.dims[d] == 1 ? 0 : rest % whole.dims[d] * stride;
		stride *= part.dims[d];
		rest /= whole.dims[d];
	}
	return static_cast<size_t>(at);
}

// Broadcasts an operand over the dimensions in which its extent is 1.
Dense spread(const Dense &from, const Tensor &tensor, const Tensor &to)
{
	if (tensor.hasSameDims(to))
		return from;
	Dense all(static_cast<size_t>(to.count()));
	for (size_t i = 0; i < all.size(); ++i)
		all[i] = from[indexIn(tensor, to, i)];
	return all;
}

double reduce(cudnnReduceTensorOp_t reducer, double before, double x)
{
	switch (reducer) {
	case CUDNN_REDUCE_TENSOR_MIN:
		return std::fmin(before, x);
	case CUDNN_REDUCE_TENSOR_MAX:
		return std::fmax(before, x);
	case CUDNN_REDUCE_TENSOR_AMAX:
		return std::fmax(before, std::fabs(x));
	default: // ADD
		return before + x;
	}
}

// Rounds as if the values had been stored in the type and read again.
void round(Dense &dense, cudnnDataType_t type, Rounding rounding = Rounding::None)
{
	const auto count = static_cast<int64_t>(dense.size());
	const Tensor tensor = dnn::packed(type, 1, &count);
	std::vector<std::byte> stored(dense.size() * dnn::sizeOf(type));
	dnn::store(dense.data(), tensor, stored.data());
	dnn::load(tensor, stored.data(), dense.data(), rounding);
}

// One run of a plan.
struct Run {
	std::shared_ptr<const Plan> plan;
	std::map<int64_t, void *> pointers;
	std::map<int64_t, Dense> values; // scalars passed by value, and computed virtual tensors
	void *workspace = nullptr;
	bool isCoarse = false, isSlow = false; // faults

	const Graph &graph() const { return *plan->graph; }
	Rounding rounding() const { return plan->engine.usesTensorCores() ? dnn::tensorCoreRounding() : Rounding::None; }
	// A precompiled engine reads a float, also from the memory of a double.
	float scalar(const Node &node, double value) const
	{
		const bool isMisread = node.hasDoubleScalars && !plan->engine.isRuntimeCompiled();
		return isMisread ? std::bit_cast<float>(static_cast<uint32_t>(std::bit_cast<uint64_t>(value)))
		                 : static_cast<float>(value);
	}
	Dense read(Memory &memory, int64_t uid, Rounding rounding = Rounding::None)
	{
		const auto found = values.find(uid);
		return found != values.end() ? found->second
		                             : memory.read<float>(graph().tensor(uid), pointers.at(uid), rounding);
	}
	bool isOperand(int64_t uid) const
	{
		const Node &operation = operationOf(graph());
		return uid == operation.first || uid == operation.second;
	}
	Dense convolved(Memory &memory, const Node &node)
	{
		const Tensor &first = graph().tensor(node.first), &second = graph().tensor(node.second),
		             &result = graph().tensor(node.result);
		Dense dense(static_cast<size_t>(result.count()));
		const void *a = memory.at(first, pointers.at(node.first)), *b = memory.at(second, pointers.at(node.second));
		if (a && b)
			dnn::convolve(node.convolution, first, a, second, b, result, dense.data(), rounding());
		return dense;
	}
	Dense multiplied(Memory &memory, const Node &node)
	{
		const Tensor &left = graph().tensor(node.first), &right = graph().tensor(node.second),
		             &result = graph().tensor(node.result);
		const auto whole = [&](const Tensor &operand) { // as many matrices as in the result
			Tensor tensor = operand;
			std::copy(result.dims, result.dims + result.rank - 2, tensor.dims);
			return tensor;
		};
		const Dense a = spread(read(memory, node.first, rounding()), left, whole(left));
		const Dense b = spread(read(memory, node.second, rounding()), right, whole(right));
		Dense dense(static_cast<size_t>(result.count()));
		const int last = result.rank - 1;
		const int64_t m = result.dims[last - 1], n = result.dims[last], k = left.dims[last];
		// The result is stored by rows, so this is the transposed product by columns.
		for (int64_t i = 0; m * n > 0 && i < result.count() / (m * n); ++i)
			blas::multiply(false, false, n, m, k, b.data() + i * k * n, a.data() + i * m * k, dense.data() + i * m * n);
		return dense;
	}
	Dense combined(Memory &memory, const Node &node)
	{
		const Tensor &result = graph().tensor(node.result);
		Dense x = spread(read(memory, node.first), graph().tensor(node.first), result);
		const Dense b =
		    node.hasSecond ? spread(read(memory, node.second), graph().tensor(node.second), result) : Dense(x.size());
		const auto alpha1 = static_cast<float>(node.alpha), alpha2 = static_cast<float>(node.beta);
		for (size_t i = 0; i < x.size(); ++i)
			x[i] = apply(node, alpha1 * x[i], alpha2 * b[i]);
		return x;
	}
	Dense reduced(Memory &memory, const Node &node)
	{
		const Tensor &from = graph().tensor(node.first), &result = graph().tensor(node.result);
		const Dense x = read(memory, node.first);
		constexpr double infinity = std::numeric_limits<double>::infinity();
		const double none = node.reducer == CUDNN_REDUCE_TENSOR_MIN   ? infinity
		                    : node.reducer == CUDNN_REDUCE_TENSOR_MAX ? -infinity
		                                                              : 0;
		std::vector<double> values(static_cast<size_t>(result.count()), none);
		for (size_t i = 0; i < x.size(); ++i) {
			double &value = values[indexIn(result, from, i)];
			value = reduce(node.reducer, value, x[i]);
		}
		return {values.begin(), values.end()};
	}
	Dense concatenated(Memory &memory, const Node &node)
	{
		const Tensor &result = graph().tensor(node.result);
		Dense dense = read(memory, node.result); // keeps the part that is in place
		const auto axis = static_cast<int>(node.dimension);
		const auto behind = static_cast<size_t>(result.countFrom(axis + 1)),
		           row = static_cast<size_t>(result.countFrom(axis));
		size_t begin = 0; // start of the input in each row
		for (size_t i = 0; i < node.inputs.size(); ++i) {
			const auto length = static_cast<size_t>(graph().tensor(node.inputs[i]).dims[axis]) * behind;
			const bool isThere = static_cast<int64_t>(i) == node.inPlace && !graph().edges.at(node.inputs[i]).isVirtual;
			if (!isThere) {
				const Dense from = read(memory, node.inputs[i]);
				for (size_t at = 0; at < from.size(); ++at)
					dense[at / length * row + begin + at % length] = from[at];
			}
			begin += length;
		}
		return dense;
	}
	Dense computed(Memory &memory, const Node &node)
	{
		switch (node.kind) {
		case Node::Kind::convolution:
			return convolved(memory, node);
		case Node::Kind::product:
			return multiplied(memory, node);
		case Node::Kind::concatenation:
			return concatenated(memory, node);
		case Node::Kind::reduction:
			return reduced(memory, node);
		default:
			return combined(memory, node);
		}
	}
	void operator()(Memory &memory)
	{
		if (plan->workspace)
			if (void *room = memory.at(workspace, plan->workspace))
				std::memset(room, 0xff, plan->workspace);
		if (isSlow) // longer than a program waits that limits its wait
			std::this_thread::sleep_for(std::chrono::seconds(10));
		for (const Node &node : graph().nodes) {
			const Edge &edge = graph().edges.at(node.result);
			const bool isOperation = node.kind == Node::Kind::convolution || node.kind == Node::Kind::product;
			Dense dense = computed(memory, node);
			for (size_t i = 0; isOperation && isCoarse && i < dense.size(); ++i)
				dense[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(dense[i]) & 0xfff00000); // three bits
			if (isOperation && node.compute == CUDNN_DATA_HALF) // the sum is rounded once here instead of in each step
				round(dense, CUDNN_DATA_HALF);
			if (edge.isVirtual && isOperand(node.result))
				round(dense, edge.tensor.type, rounding());
			const bool isScaled = node.kind == Node::Kind::convolution;
			if (edge.isVirtual)
				values[node.result] = std::move(dense);
			else
				memory.write<float>(std::move(dense), edge.tensor, pointers.at(node.result),
				                    isScaled ? scalar(node, node.alpha) : 1, isScaled ? scalar(node, node.beta) : 0);
		}
	}
};

} // namespace

cudnnStatus_t execute(const Handle &handle, const std::shared_ptr<const Plan> &plan, const Descriptor &pack)
{
	const auto uids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
	const auto pointers = pack.all<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
	Run run{plan, {}, {}, pack.get<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)};
	for (size_t i = 0; i < uids.size(); ++i) {
		const auto edge = plan->graph->edges.find(uids[i]);
		if (edge != plan->graph->edges.end() && !edge->second.isVirtual)
			run.pointers[uids[i]] = pointers[i];
	}
	for (const auto &[uid, edge] : plan->graph->edges) {
		if (edge.isVirtual)
			continue;
		REFUSE_IF(!run.pointers.count(uid), BAD_PARAM);
		void *pointer = run.pointers.at(uid);
		REFUSE_IF(!pointer, BAD_PARAM_NULL_POINTER);
		if (edge.isByValue) { // host memory, which may change after the call
			Tensor scalar = edge.tensor;
			dnn::load(scalar, pointer, (run.values[uid] = Dense(1)).data());
			continue;
		}
		REFUSE_IF(reinterpret_cast<uintptr_t>(pointer) % static_cast<uintptr_t>(edge.alignment) != 0,
		          BAD_PARAM_MISALIGNED_POINTER);
	}
	REFUSE_IF(plan->workspace && !run.workspace, BAD_PARAM_NULL_POINTER);
	REFUSE_IF(plan->version != 900, NOT_SUPPORTED_ARCH_MISMATCH); // the emulated device
	if (const auto type = plan->graph->tensor(operationOf(*plan->graph).first).type;
	    type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16) {
		run.isCoarse = mustFail("PRODUCT_ROUNDING");
		run.isSlow = mustFail("PRODUCT_DURATION");
	}
	return cudnn::run(handle, "cudnnBackendExecute", [run](Memory &memory) { Run{run}(memory); });
}

namespace {

struct Asked {
	cudnnStatus_t status;
	Handle *handle;
	const Descriptor *plan, *pack;
};

Asked check(cudnnHandle_t handle, cudnnBackendDescriptor_t executionPlan, cudnnBackendDescriptor_t variantPack)
{
	Asked asked{CUDNN_STATUS_SUCCESS, handleOf(handle), live(executionPlan), live(variantPack)};
	if (!asked.handle || !asked.plan || !asked.pack || asked.plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
	    asked.pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
		asked.status = refuse(CUDNN_STATUS_BAD_PARAM, "no handle, plan or variant pack");
	else if (!asked.plan->isFinalized)
		asked.status = refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "the plan is not finalized");
	else if (!asked.pack->isFinalized)
		asked.status = refuse(CUDNN_STATUS_BAD_PARAM, "the variant pack is not finalized");
	return asked;
}

// Adds the work to a graph as nodes.
cudnnStatus_t populate(const Asked &asked, cudaGraph_t graph)
{
	REFUSE_IF(!asked.plan->plan->engine.hasNativeGraph(), NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API);
	Handle aside = *asked.handle;
	REFUSE_IF(emulated::createStream(&aside.stream, cudaStreamNonBlocking, 0) != cudaSuccess, EXECUTION_FAILED_CUDART);
	cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM;
	if (emulated::captureTo(aside.stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed) == cudaSuccess) {
		status = execute(aside, asked.plan->plan, *asked.pack);
		emulated::endCapture(aside.stream, &graph);
	}
	emulated::destroyStream(aside.stream);
	return status;
}

} // namespace

} // namespace emulated::cudnn::graph

using namespace emulated::cudnn;
using namespace emulated::cudnn::graph;

ENTRY(cudnnBackendExecute, EXECUTION_FAILED, handle, executionPlan, variantPack)
{
	const Asked asked = check(handle, executionPlan, variantPack);
	return asked.status ? asked.status : execute(*asked.handle, asked.plan->plan, *asked.pack);
}

ENTRY(cudnnBackendPopulateCudaGraph, EXECUTION_FAILED, handle, executionPlan, variantPack, graph)
{
	const Asked asked = check(handle, executionPlan, variantPack);
	return asked.status ? asked.status : populate(asked, graph);
}

ENTRY(cudnnBackendUpdateCudaGraph, EXECUTION_FAILED, handle, executionPlan, variantPack, graph)
{
	const Asked asked = check(handle, executionPlan, variantPack);
	if (asked.status)
		return asked.status;
	cudaGraph_t fresh = nullptr;
	REFUSE_IF(emulated::createGraph(&fresh) != cudaSuccess, EXECUTION_FAILED_CUDART);
	cudnnStatus_t status = populate(asked, fresh);
	if (!status && emulated::takeWork(graph, fresh) != cudaSuccess)
		status = refuse(CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH, "the graph was not populated from this plan");
	emulated::destroyGraph(fresh);
	return status;
}
