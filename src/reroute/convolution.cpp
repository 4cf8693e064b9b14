#include "src/reroute/convolution.h"

#include "src/base/clock.h"
#include "src/op/shadow.h"
#include "src/reroute/call.h"
#include "src/reroute/dnn_plan.h"

#include <algorithm>
#include <cstddef>

namespace autoamp::reroute {

namespace {

using op::Direction;
using policy::Reason;

// ---- tensors

// Where a tensor's elements lie, in the order of its shadow's; `first` becomes where the first one does. Levels that
// follow each other without a gap are one: packed tensors have one or two.
kernels::TensorLayout layoutOf(const op::Tensor &tensor, bool isFlipped, int64_t &first)
{
	kernels::TensorLayout layout = {tensor.dims[1], tensor.dims[1] > 1 ? tensor.strides[1] : 0, 0, {1, 1, 1, 1}, {}};
	first = 0;
	for (int i = tensor.rank; i-- > 0;) {
		const int64_t extent = tensor.dims[i];
		int64_t stride = tensor.strides[i];
		if (i == 1 || extent == 1)
			continue;
		if (isFlipped && i > 1) {
			first += (extent - 1) * stride;
			stride = -stride;
		}
		const int last = layout.levels - 1;
		if (last >= 0 && stride == layout.extent[last] * layout.stride[last]) {
			layout.extent[last] *= extent;
		} else {
			layout.extent[last + 1] = extent, layout.stride[last + 1] = stride;
			layout.levels++;
		}
	}
	layout.levels = std::max(layout.levels, 1);
	return layout;
}

int64_t sizeOf(const op::Tensor &tensor)
{
	int64_t size = 1;
	for (int i = 0; i < tensor.rank; i++)
		size *= tensor.dims[i];
	return size;
}

kernels::Tensor operand(const op::Tensor &tensor, const op::Tensor &shadow, bool isFlipped, const void *source,
                        cuda::Address target)
{
	int64_t first;
	const kernels::TensorLayout layout = layoutOf(tensor, isFlipped, first);
	const int64_t columns = sizeOf(shadow) / shadow.dims[1];
	return {static_cast<const float *>(source) + first, reinterpret_cast<uint16_t *>(target), layout, shadow.dims[1],
	        columns - layout.columns()};
}

// One call, in words of its direction.
struct Asked {
	const op::Convolution &convolution;
	const op::Convolution shadow;
	const bool isNarrow, isFilterResult;
	const float *first, *second, *added, *bias;
	float *result;
	float alpha, beta;

	Asked(const op::Convolution &of, const op::ConvolutionCall &call, op::Form form)
	    : convolution(of), shadow(op::padded(of)), isNarrow(form == op::Form::narrow),
	      isFilterResult(of.direction == Direction::backwardFilter),
	      bias(static_cast<const float *>(of.hasBias ? call.bias : nullptr)),
	      alpha(*static_cast<const float *>(call.alpha)), beta(*static_cast<const float *>(call.beta))
	{
		float *const x = static_cast<float *>(call.x), *const w = static_cast<float *>(call.w),
		             *const y = static_cast<float *>(call.y);
		const bool isData = of.direction == Direction::backwardData;
		first = isData ? y : x;
		second = isFilterResult ? y : w;
		result = isData ? x : isFilterResult ? w : y;
		added = beta == 0 ? nullptr : of.hasSource ? static_cast<const float *>(call.z) : result;
	}
	// May the plan write it? As aligned as it was promised.
	bool isDirect() const
	{
		return !isNarrow && op::isWrittenInPlace(convolution, beta == 0) &&
		       reinterpret_cast<uintptr_t>(result) % 16 == 0;
	}
	kernels::Placement placement(cuda::Address from) const
	{
		int64_t offset;
		const kernels::TensorLayout layout =
		    layoutOf(convolution.result(), isFilterResult && convolution.isFlipped, offset);
		return {reinterpret_cast<const void *>(from),
		        isNarrow,
		        shadow.result().dims[1],
		        result + offset,
		        layout,
		        added ? added + offset : nullptr,
		        alpha,
		        beta,
		        bias,
		        convolution.activation == op::Activation::none ? kernels::Activation::none
		        : convolution.propagatesNan                    ? kernels::Activation::reluOfNan
		                                                       : kernels::Activation::relu};
	}
};

// One call's device memory, from `base` on.
struct Places {
	cuda::Address scratch, first, second, result, workspace, end;
};

Places place(const Asked &asked, size_t workspaceSize, cuda::Address base)
{
	const auto bytes = [](const op::Tensor &tensor, size_t each) {
		return aligned(static_cast<size_t>(sizeOf(tensor)) * each);
	};
	Places places;
	places.scratch = base;
	places.first = base + aligned(sizeof(kernels::Scratch));
	places.second = places.first + bytes(asked.shadow.first(), 2);
	places.result = places.second + bytes(asked.shadow.second(), 2);
	places.workspace = places.result + (asked.isDirect() ? 0 : bytes(asked.shadow.result(), asked.isNarrow ? 2 : 4));
	places.end = places.workspace + aligned(workspaceSize);
	return places;
}

// Puts both operands in 16 bits in their places, alpha in the scratch. Null: it worked; else the step that failed.
const char *convert(const Asked &asked, Plan &plan, const Settings &settings, bool isHalf, const cuda::Driver &driver,
                    Context &context, cuda::Stream stream, const Places &places, bool isCaptured)
{
	const op::Convolution &convolution = asked.convolution;
	kernels::TensorParameters parameters = {};
	parameters.tensor[0] = operand(convolution.first(), asked.shadow.first(), false, asked.first, places.first);
	parameters.tensor[1] = operand(convolution.second(), asked.shadow.second(),
	                               convolution.isFlipped && !asked.isFilterResult, asked.second, places.second);
	parameters.alphaValue = asked.alpha;
	return castTensors(parameters, plan, settings, isHalf, asked.first, asked.second, driver, context, stream,
	                   places.scratch, isCaptured);
}

// From the casts to where the result belongs. Fails only before anything of the application's was written.
Outcome convolve(const Asked &asked, const op::CudnnGraph &cudnn, void *handle, const DnnPlan &plan,
                 const cuda::Driver &driver, const Context &context, cuda::Stream stream, const Places &places)
{
	const auto at = [](cuda::Address address) { return reinterpret_cast<void *>(address); };
	const bool isDirect = asked.isDirect();
	const int64_t uids[] = {op::uidFirst, op::uidSecond, op::uidResult, op::uidScale};
	void *const pointers[] = {at(places.first), at(places.second), isDirect ? asked.result : at(places.result),
	                          at(places.scratch)}; // which begins with alpha
	const size_t count = asked.isNarrow ? 3 : 4;
	const DnnAnswer answer =
	    execute(cudnn, handle, plan, std::span(uids, count), std::span(pointers, count), at(places.workspace));
	if (answer.status)
		return decline(Reason::engine_failed, answer.what, answer.status);
	if (!isDirect) {
		kernels::Placement home = asked.placement(places.result);
		const unsigned blocks = kernels::gridSize(home, static_cast<unsigned>(context.facts->smCount));
		if (!launch(driver, conversionKernels(driver)->place, blocks, stream, home))
			return decline(Reason::engine_failed, "cuLaunchKernel");
	}
	Outcome done;
	done.isDone = true;
	return done;
}
static_assert(offsetof(kernels::Scratch, alpha) == 0);

Outcome runIn(bool isCaptured, const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
              const op::ConvolutionCall &call, const op::CudnnGraph &cudnn, const cuda::Driver &driver,
              cuda::Stream stream)
{
	const op::Convolution &convolution = *op::convolutionAt(op.geometry);
	const ContextAnswer answer = currentContext(driver, settings.memoryBudget, stream, isCaptured, true);
	if (!answer.context)
		return decline(answer.reason, answer.what);
	Context &context = *answer.context;
	const op::Form form = op::formOf(convolution, decision.precision, context.facts->capability);
	const Asked asked(convolution, call, form);
	const FoundPlan found = findPlan(cudnn, call.handle, {context.id, op.geometry, 0, decision.precision}, isCaptured,
	                                 [&] { return op::graphOf(convolution, form, decision.precision); });
	Outcome outcome = found.why;
	if (found.plan) {
		const size_t workspaceSize = found.plan->workspaceSize;
		CallMemory memory(driver, context, stream, isCaptured, place(asked, workspaceSize, 0).end);
		if (memory.block().failure == cuda::Failure::none) {
			const Places places = place(asked, workspaceSize, memory.block().address);
			const bool isHalf = decision.precision == op::Dtype::float16;
			const char *const failed =
			    convert(asked, plan, settings, isHalf, driver, context, stream, places, isCaptured);
			outcome = failed ? decline(Reason::engine_failed, failed)
			                 : convolve(asked, cudnn, call.handle, *found.plan, driver, context, stream, places);
			memory.release(outcome);
			if (!isCaptured && outcome.isDone)
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
            const op::ConvolutionCall &call, const void *known, void *stream)
{
	if (decision.strategy != policy::Strategy::cast)
		return decline(Reason::unsupported);
	return runOnStream(known, stream, [&](bool isCaptured, const op::CudnnGraph &cudnn, const cuda::Driver &driver) {
		return runIn(isCaptured, op, decision, plan, settings, call, cudnn, driver, static_cast<cuda::Stream>(stream));
	});
}

} // namespace autoamp::reroute
