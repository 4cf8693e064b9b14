#include "src/reroute/graph.h"

#include "src/reroute/call.h"
#include "src/reroute/dnn_plan.h"

#include <algorithm>

namespace autoamp::reroute {

namespace {

using policy::Reason;

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

} // namespace

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

namespace {

// Layout of the elements of an operand, in the order in which they are written.
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

void prepare(const op::KnownGraph &known, op::Dtype precision, DnnPlan &plan)
{
	if (!isCast(precision))
		return;
	plan.operand[0] = passage(known, false, precision);
	plan.operand[1] = passage(known, true, precision);
	plan.ownUid = uidsOf(known.graph).first;
}

struct Asked {
	const op::KnownGraph &known;
	const op::VariantPack &pack;
	op::Dtype precision;
	bool isCast() const { return reroute::isCast(precision); }
};

// Device memory of one call, from `base` on.
struct Places {
	cuda::Address scratch, first, second, workspace, end;
};

Places place(const Asked &asked, const DnnPlan &plan, cuda::Address base)
{
	Places places = {base, base, base, base, base};
	if (asked.isCast()) {
		places.first = base + aligned(sizeof(kernels::Scratch));
		places.second = places.first + plan.operand[0].bytes;
		places.workspace = places.second + plan.operand[1].bytes;
	}
	places.end = places.workspace + aligned(plan.workspaceSize);
	return places;
}

// Converts both operands to 16 bits in their places, and writes alpha to the scratch memory. Returns null, or the step
// that failed.
const char *convert(const Asked &asked, const DnnPlan &by, Plan &plan, const Settings &settings,
                    const cuda::Driver &driver, Context &context, cuda::Stream stream, const Places &places,
                    bool isCaptured)
{
	const op::GraphNode &product = *asked.known.product;
	const void *const first = *asked.pack.find(product.first), *const second = *asked.pack.find(product.second);
	kernels::TensorParameters parameters = {};
	parameters.tensor[0] = tensorOf(by.operand[0], first, places.first);
	parameters.tensor[1] = tensorOf(by.operand[1], second, places.second);
	parameters.alphaValue = static_cast<float>(product.alpha);
	return castTensors(parameters, plan, settings, asked.precision == op::Dtype::float16, first, second, driver,
	                   context, stream, places.scratch, isCaptured);
}

// Runs the plan with the application's tensors that it uses, and with autoamp's operands and scale.
Outcome execute(const Asked &asked, const op::CudnnGraph &cudnn, void *handle, const DnnPlan &plan,
                const Places &places)
{
	int64_t uids[op::mostPackTensors + 3];
	void *pointers[op::mostPackTensors + 3];
	size_t count = 0;
	const auto put = [&](int64_t uid, void *pointer) { uids[count] = uid, pointers[count++] = pointer; };
	const op::GraphNode &product = *asked.known.product;
	const auto isRead = [&](int64_t uid) { // by a node other than the product
		return std::any_of(asked.known.graph.nodes.begin(), asked.known.graph.nodes.end(),
		                   [&](auto &node) { return node.result == uid || (&node != &product && node.reads(uid)); });
	};
	for (int64_t i = 0; i < asked.pack.count; i++)
		if (!asked.isCast() || isRead(asked.pack.uids[i]))
			put(asked.pack.uids[i], asked.pack.pointers[i]);
	if (asked.isCast()) {
		const Uids ours = uidsFrom(plan.ownUid);
		put(ours.first, reinterpret_cast<void *>(places.first));
		put(ours.second, reinterpret_cast<void *>(places.second));
		put(ours.scale, reinterpret_cast<void *>(places.scratch)); // alpha is its first member
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
	const FoundPlan found = findPlan(
	    cudnn, {handle, nullptr, context.facts->capability}, {context.id, 0, op.graph, asked.precision}, isCaptured,
	    [&] { return shadowOf(asked.known, asked.precision); },
	    [&](DnnPlan &made) { prepare(asked.known, asked.precision, made); });
	if (!found.plan)
		return found.why;
	const DnnPlan &by = *found.plan;
	Outcome outcome = runInMemory(
	    driver, context, stream, isCaptured, place(asked, by, 0).end, asked.isCast(),
	    [&](cuda::Address base) {
		    return convert(asked, by, plan, settings, driver, context, stream, place(asked, by, base), isCaptured);
	    },
	    [&](cuda::Address base) { return execute(asked, cudnn, handle, by, place(asked, by, base)); });
	outcome.builtNs = found.builtNs;
	return outcome;
}

} // namespace

Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const op::KnownGraph &graph, const op::VariantPack &pack, void *handle, const void *known, void *stream)
{
	const Asked asked = {graph, pack, decision.precision};
	return runOnStream(known, stream, [&](bool isCaptured, const op::CudnnGraph &cudnn, const cuda::Driver &driver) {
		return runIn(isCaptured, op, asked, plan, settings, handle, cudnn, driver, static_cast<cuda::Stream>(stream));
	});
}

} // namespace autoamp::reroute
