#include "src/lower/graph.h"

#include "src/lower/convolution.h"
#include "src/lower/plan_family.h"

#include <algorithm>

namespace autoamp::lower {

namespace {

// False: another engine multiplies the application's own operands, as TF32 or raised.
bool isCast(op::Dtype precision)
{
	return precision == op::Dtype::float16 || precision == op::Dtype::bfloat16;
}

// The dimension of an operand that is contiguous in 16 bits, and the one that is padded to 8 (-1: none), which is
// summed over. The other dimensions also belong to the result, and so to the tensors of the application's other nodes.
struct Inner {
	int dimension, padded;
};

Inner innerOf(const op::KnownGraph &known, bool isSecond)
{
	const op::GraphNode &product = *known.product;
	const int rank = op::tensorOf(known.graph, product.first)->rank;
	if (product.kind == op::NodeKind::matmul) { // k: last dimension of the first operand, last but one of the second
		const int k = isSecond ? rank - 2 : rank - 1;
		return {k, k};
	}
	if (known.convolution.groups > 1 || product.kind == op::NodeKind::backwardFilter)
		return {1, -1};
	return {1, isSecond && product.kind == op::NodeKind::backwardData ? 0 : 1}; // K of a data gradient's filter, else C
}

int64_t padded(int64_t extent)
{
	return (extent + 7) / 8 * 8;
}

// An operand without gaps. Its inner dimension is contiguous.
op::GraphTensor narrowed(op::GraphTensor tensor, const Inner &inner, int64_t uid, op::Dtype precision)
{
	tensor.uid = uid, tensor.type = precision;
	tensor.alignment = 16;
	if (inner.padded >= 0)
		tensor.dims[inner.padded] = padded(tensor.dims[inner.padded]);
	int64_t stride = tensor.dims[inner.dimension];
	for (int i = tensor.rank; i-- > 0;)
		if (i != inner.dimension) {
			tensor.strides[i] = stride;
			stride *= tensor.dims[i];
		}
	tensor.strides[inner.dimension] = 1;
	return tensor;
}

struct Uids {
	int64_t first, second, sum, scale;
};

Uids uidsFrom(int64_t first)
{
	return {first, first + 1, first + 2, first + 3};
}

// The first four consecutive uids that no application tensor has.
Uids uidsOf(const op::Graph &graph)
{
	constexpr int64_t count = 4;
	int64_t first = 1;
	const auto isTaken = [&](const op::GraphTensor &tensor) {
		return tensor.uid >= first && tensor.uid < first + count;
	};
	while (std::any_of(graph.tensors.begin(), graph.tensors.end(), isTaken))
		first += count;
	return uidsFrom(first);
}

// The graph with operands of type `precision` for the product, and a multiplication by a scalar after it. For tf32 it
// is the same graph.
op::Graph shadowOf(const op::KnownGraph &known, op::Dtype precision)
{
	op::Graph shadow = known.graph;
	if (!isCast(precision))
		return shadow;
	const op::GraphNode &product = *known.product;
	const Uids uids = uidsOf(known.graph);
	op::GraphNode &changed = shadow.nodes[static_cast<size_t>(&product - known.graph.nodes.data())];
	changed.first = uids.first, changed.second = uids.second, changed.result = uids.sum;
	changed.alpha = 1, changed.isFlipped = false; // the scale includes alpha, and the cast flips the filter
	op::GraphTensor sum = *op::tensorOf(known.graph, product.result), scale = sum;
	sum.uid = uids.sum, sum.isVirtual = true;
	scale.uid = uids.scale, scale.isVirtual = false, scale.alignment = 16;
	std::fill_n(scale.dims, scale.rank, 1);
	std::fill_n(scale.strides, scale.rank, 1);
	const op::GraphTensor added[] = {
	    narrowed(*op::tensorOf(known.graph, product.first), innerOf(known, false), uids.first, precision),
	    narrowed(*op::tensorOf(known.graph, product.second), innerOf(known, true), uids.second, precision), sum, scale};
	shadow.tensors.insert(shadow.tensors.end(), std::begin(added), std::end(added));
	constexpr int pointwiseMul = 1; // CUDNN_POINTWISE_MUL
	op::GraphNode multiply;
	multiply.kind = op::NodeKind::pointwise, multiply.pointwise = pointwiseMul;
	multiply.first = uids.sum, multiply.second = uids.scale, multiply.result = product.result;
	shadow.nodes.push_back(multiply);
	// Removes the tensors that only the product read.
	std::erase_if(shadow.tensors, [&](const op::GraphTensor &tensor) {
		return std::none_of(shadow.nodes.begin(), shadow.nodes.end(), [&](const op::GraphNode &node) {
			return node.reads(tensor.uid) || node.result == tensor.uid;
		});
	});
	return shadow;
}

Passage passage(const op::KnownGraph &known, bool isSecond, op::Dtype precision)
{
	const op::GraphNode &product = *known.product;
	const op::GraphTensor &from = *op::tensorOf(known.graph, isSecond ? product.second : product.first);
	const Inner inner = innerOf(known, isSecond);
	const op::GraphTensor to = narrowed(from, inner, 0, precision);
	Passage made;
	made.layout = layoutOf(from, inner.dimension, isSecond && product.isFlipped, made.first);
	made.ld = to.dims[inner.dimension];
	int64_t size = 1;
	for (int i = 0; i < to.rank; i++)
		size *= to.dims[i];
	made.zeroColumns = size / made.ld - made.layout.columns();
	made.bytes = aligned(static_cast<size_t>(size) * 2);
	return made;
}

class GraphFamily final : public PlanFamily
{
public:
	GraphFamily(const LoweredCall &lowered, void *handle, const op::Execution &execution, const op::CudnnGraph &cudnn)
	    : PlanFamily(cudnn, handle, lowered.isCast(), {0, 0, lowered.op.graph, lowered.decision.precision}),
	      known_(*execution.graph), product_(*known_.product), pack_(execution.pack),
	      precision_(lowered.decision.precision)
	{
		if (isCast_) {
			first_ = static_cast<const float *>(*pack_.find(product_.first));
			second_ = static_cast<const float *>(*pack_.find(product_.second));
			alpha_ = static_cast<float>(product_.alpha);
		}
	}

	// Its other nodes may compute anything, and the plan of the application in fp32 would write its results.
	const char *describeAudit(const LoweredCall &, kernels::AuditCall &) const override
	{
		return "a graph with other nodes";
	}

	// Runs the plan with the application's tensors that it uses, and with autoamp's operands and scale.
	Outcome enqueue(LoweredCall &) override
	{
		int64_t uids[op::mostPackTensors + 3];
		void *pointers[op::mostPackTensors + 3];
		size_t count = 0;
		const auto put = [&](int64_t uid, void *pointer) { uids[count] = uid, pointers[count++] = pointer; };
		for (int64_t i = 0; i < pack_.count; i++)
			if (!isCast_ || isRead(pack_.uids[i]))
				put(pack_.uids[i], pack_.pointers[i]);
		if (isCast_) {
			const Uids ours = uidsFrom(plan_->ownUid);
			put(ours.first, places_.first);
			put(ours.second, places_.second);
			put(ours.scale, places_.scratch);
		}
		return execute(std::span(uids, count), std::span(pointers, count));
	}

private:
	op::Graph graph() const override { return shadowOf(known_, precision_); }
	void setPassages(DnnPlan &plan) const override
	{
		if (!isCast_)
			return;
		plan.operand[0] = passage(known_, false, precision_);
		plan.operand[1] = passage(known_, true, precision_);
		plan.ownUid = uidsOf(known_.graph).first;
	}
	// By a node other than the product.
	bool isRead(int64_t uid) const
	{
		return std::any_of(known_.graph.nodes.begin(), known_.graph.nodes.end(), [&](const op::GraphNode &node) {
			return node.result == uid || (&node != &product_ && node.reads(uid));
		});
	}

	const op::KnownGraph &known_;
	const op::GraphNode &product_;
	const op::VariantPack &pack_;
	const op::Dtype precision_;
};

// `graph` as a call of the legacy API, without its scalars.
op::ConvolutionCall legacyCall(void *handle, const op::KnownGraph &graph, const op::VariantPack &pack)
{
	const op::GraphNode &product = *graph.product;
	void *const first = *pack.find(product.first), *const second = *pack.find(product.second),
	            *const result = *pack.find(graph.result);
	const bool isData = product.kind == op::NodeKind::backwardData,
	           isFilter = product.kind == op::NodeKind::backwardFilter;
	op::ConvolutionCall call;
	call.handle = handle;
	call.x = isData ? result : first;
	call.w = isFilter ? result : second;
	call.y = isData ? first : isFilter ? second : result;
	if (graph.convolution.hasSource)
		call.z = *pack.find(graph.source);
	if (graph.convolution.hasBias)
		call.bias = *pack.find(graph.bias);
	call.direction = graph.convolution.direction;
	return call;
}

} // namespace

Outcome lower(LoweredCall &lowered, const op::GraphCall &call, const op::Execution &execution)
{
	const op::KnownGraph &graph = *execution.graph;
	if (graph.isLegacyCall && lowered.isCast()) {
		const float alpha = static_cast<float>(graph.product->alpha), beta = static_cast<float>(graph.beta);
		op::ConvolutionCall convolution = legacyCall(call.handle, graph, execution.pack);
		convolution.alpha = &alpha, convolution.beta = &beta;
		return lower(lowered, convolution);
	}
	const auto *const cudnn = op::cudnn<op::CudnnGraph>(lowered.original);
	if (!cudnn)
		return decline(policy::Reason::unsupported);
	if (lowered.isCast())
		if (const Outcome tested = requireConvolutionTest(lowered, *cudnn, call.handle); !tested.isDone)
			return tested;
	GraphFamily family(lowered, call.handle, execution, *cudnn);
	return run(lowered, family);
}

} // namespace autoamp::lower
