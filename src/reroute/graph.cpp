#include "src/reroute/graph.h"

#include "src/reroute/call.h"
#include "src/reroute/dnn_plan.h"

#include <algorithm>

namespace autoamp::reroute {

namespace {

using policy::Reason;

// Which dimension of an operand is contiguous in 16 bits, and padded to 8 if that changes nothing of the result.
struct Inner {
	int dimension;
	bool isPadded;
};

Inner innerOf(const op::KnownGraph &known, bool isSecond)
{
	const op::GraphNode &product = *known.product;
	const int rank = op::tensorOf(known.graph, product.first)->rank;
	if (product.kind == op::NodeKind::matmul)
		return {isSecond ? rank - 2 : rank - 1, true}; // k: of rows of the one, of columns of the other
	return {1, product.kind == op::NodeKind::forward && known.convolution.groups == 1};
}

int64_t padded(int64_t extent)
{
	return (extent + 7) / 8 * 8;
}

// An operand without gaps, its inner dimension first.
op::GraphTensor narrowed(op::GraphTensor tensor, const Inner &inner, int64_t uid, op::Dtype precision)
{
	tensor.uid = uid, tensor.type = precision;
	tensor.alignment = 16;
	int64_t &extent = tensor.dims[inner.dimension];
	if (inner.isPadded)
		extent = padded(extent);
	int64_t stride = extent;
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

// That no tensor of the application's has.
Uids uidsOf(const op::Graph &graph)
{
	int64_t most = 0;
	for (const op::GraphTensor &tensor : graph.tensors)
		most = std::max(most, tensor.uid);
	return {most + 1, most + 2, most + 3, most + 4};
}

} // namespace

op::Graph shadowOf(const op::KnownGraph &known, op::Dtype precision)
{
	op::Graph shadow = known.graph;
	if (precision == op::Dtype::tf32)
		return shadow;
	const op::GraphNode &product = *known.product;
	const Uids uids = uidsOf(known.graph);
	op::GraphNode &changed = shadow.nodes[static_cast<size_t>(&product - known.graph.nodes.data())];
	changed.first = uids.first, changed.second = uids.second, changed.result = uids.sum;
	changed.alpha = 1, changed.isFlipped = false; // the scale has alpha, the cast turns the filter
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
	// What only the product read is not there any more.
	std::erase_if(shadow.tensors, [&](const op::GraphTensor &tensor) {
		return std::none_of(shadow.nodes.begin(), shadow.nodes.end(), [&](const op::GraphNode &node) {
			return node.first == tensor.uid || node.second == tensor.uid || node.result == tensor.uid;
		});
	});
	return shadow;
}

namespace {

// Where the elements of an operand lie, in the order in which they are written.
kernels::TensorLayout layoutOf(const op::GraphTensor &tensor, int inner, bool isFlipped, int64_t &first)
{
	kernels::TensorLayout layout = {tensor.dims[inner], tensor.strides[inner], 0, {1, 1, 1, 1}, {}};
	for (int i = tensor.rank; i-- > 0;) {
		const int64_t extent = tensor.dims[i];
		int64_t stride = tensor.strides[i];
		if (i == inner || extent == 1)
			continue;
		if (isFlipped && i > 1) {
			first += (extent - 1) * stride;
			stride = -stride;
		}
		layout.extent[layout.levels] = extent, layout.stride[layout.levels++] = stride;
	}
	layout.levels = std::max(layout.levels, 1);
	return layout;
}

// One of the product's operands: as the application has it, and as it is multiplied.
struct Operand {
	op::GraphTensor from, to;
	Inner inner;

	Operand(const op::KnownGraph &known, bool isSecond, op::Dtype precision)
	    : from(*op::tensorOf(known.graph, isSecond ? known.product->second : known.product->first)),
	      inner(innerOf(known, isSecond))
	{
		const Uids uids = uidsOf(known.graph);
		to = narrowed(from, inner, isSecond ? uids.second : uids.first, precision);
	}
	size_t bytes() const
	{
		size_t bytes = 2;
		for (int i = 0; i < to.rank; i++)
			bytes *= static_cast<size_t>(to.dims[i]);
		return bytes;
	}
	kernels::Tensor cast(const void *source, bool isFlipped, cuda::Address target) const
	{
		int64_t first = 0;
		const kernels::TensorLayout layout = layoutOf(from, inner.dimension, isFlipped, first);
		return {static_cast<const float *>(source) + first, reinterpret_cast<uint16_t *>(target), layout,
		        to.dims[inner.dimension], 0};
	}
};

struct Asked {
	const op::KnownGraph &known;
	const op::VariantPack &pack;
	op::Dtype precision;
	const Operand first, second;
	bool isCast() const { return precision != op::Dtype::tf32; }
};

// One call's device memory, from `base` on.
struct Places {
	cuda::Address scratch, first, second, workspace, end;
};

Places place(const Asked &asked, size_t workspaceSize, cuda::Address base)
{
	Places places = {base, base, base, base, base};
	if (asked.isCast()) {
		places.first = base + aligned(sizeof(kernels::Scratch));
		places.second = places.first + aligned(asked.first.bytes());
		places.workspace = places.second + aligned(asked.second.bytes());
	}
	places.end = places.workspace + aligned(workspaceSize);
	return places;
}

// Puts both operands in 16 bits in their places, alpha in the scratch. Null: it worked; else the step that failed.
const char *convert(const Asked &asked, Plan &plan, const Settings &settings, const cuda::Driver &driver,
                    Context &context, cuda::Stream stream, const Places &places, bool isCaptured)
{
	const op::GraphNode &product = *asked.known.product;
	const void *const first = *asked.pack.find(product.first), *const second = *asked.pack.find(product.second);
	kernels::TensorParameters parameters = {};
	parameters.tensor[0] = asked.first.cast(first, false, places.first);
	parameters.tensor[1] = asked.second.cast(second, product.isFlipped, places.second);
	parameters.alphaValue = static_cast<float>(product.alpha);
	return castTensors(parameters, plan, settings, asked.precision == op::Dtype::float16, first, second, driver,
	                   context, stream, places.scratch, isCaptured);
}

// The plan's pointers: the application's, where it has such a tensor, and ours.
Outcome execute(const Asked &asked, const op::CudnnGraph &cudnn, void *handle, const DnnPlan &plan,
                const Places &places)
{
	int64_t uids[op::mostPackTensors + 3];
	void *pointers[op::mostPackTensors + 3];
	size_t count = 0;
	const auto put = [&](int64_t uid, void *pointer) { uids[count] = uid, pointers[count++] = pointer; };
	const op::GraphNode &product = *asked.known.product;
	const auto isRead = [&](int64_t uid) { // by something else than the product
		return std::any_of(asked.known.graph.nodes.begin(), asked.known.graph.nodes.end(), [&](auto &node) {
			return node.result == uid || (&node != &product && (node.first == uid || node.second == uid));
		});
	};
	for (int64_t i = 0; i < asked.pack.count; i++)
		if (!asked.isCast() || isRead(asked.pack.uids[i]))
			put(asked.pack.uids[i], asked.pack.pointers[i]);
	if (asked.isCast()) {
		const Uids ours = uidsOf(asked.known.graph);
		put(ours.first, reinterpret_cast<void *>(places.first));
		put(ours.second, reinterpret_cast<void *>(places.second));
		put(ours.scale, reinterpret_cast<void *>(places.scratch)); // which begins with alpha
	}
	const DnnAnswer answer = execute(cudnn, handle, plan, std::span(uids, count), std::span(pointers, count),
	                                 reinterpret_cast<void *>(places.workspace));
	if (answer.status)
		return decline(Reason::engine_failed, answer.what, answer.status);
	Outcome done;
	done.isDone = true;
	return done;
}

Outcome runIn(bool isCaptured, const op::Op &op, const Asked &asked, Plan &plan, const Settings &settings, void *handle,
              const op::CudnnGraph &cudnn, const cuda::Driver &driver, cuda::Stream stream)
{
	const ContextAnswer answer = currentContext(driver, settings.memoryBudget, stream, isCaptured, asked.isCast());
	if (!answer.context)
		return decline(answer.reason, answer.what);
	Context &context = *answer.context;
	const FoundPlan found = findPlan(cudnn, handle, {context.id, 0, op.graph, asked.precision}, isCaptured,
	                                 [&] { return shadowOf(asked.known, asked.precision); });
	Outcome outcome = found.why;
	if (found.plan) {
		CallMemory memory(driver, context, stream, isCaptured, place(asked, found.plan->workspaceSize, 0).end);
		if (memory.block().failure == cuda::Failure::none) {
			const Places places = place(asked, found.plan->workspaceSize, memory.block().address);
			const char *const failed =
			    asked.isCast() ? convert(asked, plan, settings, driver, context, stream, places, isCaptured) : nullptr;
			outcome =
			    failed ? decline(Reason::engine_failed, failed) : execute(asked, cudnn, handle, *found.plan, places);
			memory.release(outcome);
			if (!isCaptured && outcome.isDone && asked.isCast())
				context.isWarm.store(true, std::memory_order_release);
		} else {
			outcome = decline(reasonOf(memory.block().failure), "allocating device memory");
		}
	}
	outcome.builtNs = found.builtNs;
	return outcome;
}

} // namespace

Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const op::KnownGraph &graph, const op::VariantPack &pack, void *handle, const void *known, void *stream)
{
	const op::Dtype precision = decision.precision;
	const Asked asked = {graph, pack, precision, {graph, false, precision}, {graph, true, precision}};
	return runOnStream(known, stream, [&](bool isCaptured, const op::CudnnGraph &cudnn, const cuda::Driver &driver) {
		return runIn(isCaptured, op, asked, plan, settings, handle, cudnn, driver, static_cast<cuda::Stream>(stream));
	});
}

} // namespace autoamp::reroute
