#include "src/lower/audit.h"

#include "src/base/faults.h"
#include "src/base/own_work.h"

#include <algorithm>
#include <utility>

namespace autoamp::lower {

namespace {

// One call in `period` is chosen, from the first one on. Captured calls are all chosen: the device decides at each
// replay.
bool isChosen(LoweredCall &call)
{
	const uint32_t period = call.settings.auditPeriod;
	if (period == 0 || call.isTest || !call.settings.reportsEvents)
		return false;
	return call.isCaptured || call.cache.audited.fetch_add(1, std::memory_order_relaxed) % period == 0;
}

const char *reasonOf(cuda::Failure failure)
{
	return failure == cuda::Failure::outOfMemory  ? "no device memory for the audit"
	       : failure == cuda::Failure::overBudget ? "the audit exceeds AUTOAMP_MEMORY or a quarter of the free memory"
	       : failure == cuda::Failure::noPools    ? "the device has no memory pools"
	                                              : "allocating device memory for the audit failed";
}

// Blocks for the passes [first, end).
unsigned blocksFor(const kernels::AuditCall &audit, int first, int end, int smCount)
{
	const int64_t most = std::min<int64_t>(kernels::mostAuditBlocks, 2 * std::max(smCount, 1));
	return static_cast<unsigned>(std::clamp<int64_t>(kernels::auditUnits(audit, first, end), 1, most));
}

} // namespace

Audit::Audit(LoweredCall &call, Family &family) : call_(call)
{
	if (__builtin_expect(isChosen(call), 0))
		skipped_ = begin(family);
}

const char *Audit::begin(Family &family)
{
	const cuda::Driver &driver = *call_.driver;
	if (const char *const refusal = family.describeAudit(call_, audit_))
		return refusal;
	const size_t referenceBytes = aligned(family.referenceBytes(call_));
	if (referenceBytes > 0 && call_.isCaptured) // only a conditional node could spare the replays the second product
		return "a nonlinear epilogue in a captured graph";
	if (call_.cache.site >= kernels::siteCount)
		return "more signatures than the device tables have";
	if (!call_.context) {
		const ContextAnswer answer =
		    currentContext(driver, call_.settings.memoryBudget, call_.stream, call_.isCaptured, false);
		if (!answer.context)
			return "the context is not ready";
		call_.context = answer.context;
	}
	ContextState &context = *call_.context;
	if (!context.slots.ringOnDevice())
		return "the device cannot map host memory";
	if (call_.isCaptured && !context.isAuditWarm.load(std::memory_order_acquire))
		return "no audit outside of a capture has run before";
	kernels_ = conversionKernels(driver, context.facts->capability).kernels;
	if (!kernels_)
		return "loading the kernels failed";
	memory_ = context.auditMemory(driver, call_.settings.memoryBudget);
	if (!memory_)
		return "creating the memory pool of the audits failed";

	audit_.matrices = kernels::checkedMatrices(audit_.batch);
	call_.prepareEvents(audit_);
	if (referenceBytes > 0) // any address, for the number of sums
		audit_.reference = reinterpret_cast<const float *>(alignment);
	const size_t sums = static_cast<size_t>(kernels::auditSumCount(audit_)) * sizeof(kernels::AuditSums);
	const size_t bytes = aligned(sizeof(kernels::AuditState)) + aligned(sums) + referenceBytes;
	if (call_.isCaptured) {
		block_ = memory_->allocateForGraph(driver, call_.stream, bytes);
	} else {
		memory_->collect(driver);
		block_ = memory_->allocate(driver, call_.stream, bytes);
	}
	if (block_.failure != cuda::Failure::none) {
		block_.address = 0;
		return reasonOf(block_.failure);
	}
	audit_.state = reinterpret_cast<kernels::AuditState *>(block_.address);
	audit_.sums = reinterpret_cast<kernels::AuditSums *>(block_.address + aligned(sizeof(kernels::AuditState)));
	audit_.period = call_.isCaptured ? call_.settings.auditPeriod : 0;
	audit_.beforeBlocks = blocksFor(audit_, 0, kernels::passesBefore, context.facts->smCount);
	if (referenceBytes > 0) {
		void *const reference = reinterpret_cast<char *>(audit_.sums) + aligned(sums);
		audit_.reference = static_cast<const float *>(reference);
		if (family.recompute(call_, reference))
			return "the product in fp32 failed";
	}
	return launch(kernels_->auditBefore, audit_.beforeBlocks) ? nullptr : "cuLaunchKernel";
}

Audit::~Audit()
{
	if (!block_.address)
		return;
	const cuda::Driver &driver = *call_.driver;
	ContextState &context = *call_.context;
	const unsigned blocks = blocksFor(audit_, kernels::passesBefore, kernels::auditPasses, context.facts->smCount);
	if (!skipped_ && hasSucceeded_) {
		if (!launch(kernels_->auditAfter, blocks))
			base::leaveFault("cuLaunchKernel");
		else if (!call_.isCaptured)
			context.isAuditWarm.store(true, std::memory_order_release);
	}
	if (call_.isCaptured)
		memory_->releaseForGraph(driver, call_.stream, block_);
	else if (!memory_->release(driver, call_.stream, block_.address))
		base::leaveFault("cuMemFreeAsync");
}

bool Audit::launch(CUkern_st *kernel, unsigned blocks)
{
	return call_.launch(kernel, blocks, audit_);
}

kernels::Axis auditedAxis(int64_t size)
{
	return {size, {size, 1, 1, 1}, 1};
}

kernels::AuditOperand auditedMatrix(const void *source, int64_t rowStride, int64_t columnStride, int64_t matrixStride,
                                    bool isArray)
{
	kernels::AuditOperand operand = {};
	operand.source = static_cast<const float *>(source);
	operand.matrixStride = matrixStride;
	operand.stride[0][0] = rowStride, operand.stride[1][0] = columnStride;
	operand.isArray = isArray;
	return operand;
}

namespace {

using op::Direction;

// An axis of the spatial dimensions of `of`, the last of them innermost, and of one more index.
kernels::Axis auditedAxis(const op::Tensor &of, int spatial, int64_t outer)
{
	kernels::Axis axis = {outer, {1, 1, 1, 1}, spatial + 1};
	for (int level = 0; level < spatial; level++)
		axis.size *= axis.extent[level] = of.dims[1 + spatial - level];
	axis.extent[spatial] = outer;
	return axis;
}

// The strides for such an axis.
void setStrides(int64_t (&to)[kernels::axisLevels], const op::Tensor &of, int spatial, int64_t outer)
{
	for (int level = 0; level < spatial; level++)
		to[level] = of.strides[1 + spatial - level];
	to[spatial] = outer;
}

// A filter that is stored from its last element on, if the convolution flips it.
void flip(kernels::AuditOperand &filter, const op::Tensor &w, int spatial, int axis)
{
	for (int level = 0; level < spatial; level++) {
		int64_t &stride = filter.stride[axis][level];
		filter.source += (w.dims[1 + spatial - level] - 1) * stride;
		stride = -stride;
	}
}

// The tensor from which the implicit product gathers its A, and the coordinates of its elements.
void setGather(const op::Convolution &convolution, kernels::Gather &gather)
{
	const bool isData = convolution.direction == Direction::backwardData;
	const op::Tensor &source = isData ? convolution.y : convolution.x;
	gather.dimensions = convolution.spatial;
	for (int level = 0; level < convolution.spatial; level++) {
		const int at = convolution.spatial - 1 - level;
		const int64_t stride = convolution.stride[at], dilation = convolution.dilation[at];
		const int64_t before = convolution.padBefore[at];
		gather.base[level] = isData ? before : -before;
		// By row and depth: positions and filter elements, except for the filter gradient.
		gather.factor[0][level] = isData ? 1 : convolution.direction == Direction::forward ? stride : dilation;
		gather.factor[1][level] = isData ? -dilation : convolution.direction == Direction::forward ? dilation : stride;
		gather.divisor[level] = isData ? stride : 1;
		gather.extent[level] = source.dims[2 + at];
		gather.stride[level] = source.strides[2 + at];
	}
}

} // namespace

void describeConvolution(const op::Convolution &convolution, const ConvolutionOperands &operands,
                         kernels::AuditCall &audit)
{
	const op::Tensor &x = convolution.x, &w = convolution.w, &y = convolution.y;
	const int spatial = convolution.spatial, groups = convolution.groups;
	const int64_t channels = w.dims[1], filters = w.dims[0] / groups; // of one group
	const bool isData = convolution.direction == Direction::backwardData,
	           isFilter = convolution.direction == Direction::backwardFilter;
	audit.batch = groups;
	setGather(convolution, audit.gather);
	audit.a.source = operands.first, audit.b.source = operands.second, audit.d.source = operands.result;
	const auto positions = [&](const op::Tensor &of) { return auditedAxis(of, spatial, of.dims[0]); };
	if (isFilter) {
		audit.row = auditedAxis(w, spatial, channels), audit.depth = positions(y),
		audit.column = lower::auditedAxis(filters);
		audit.a.stride[0][spatial] = x.strides[1], audit.a.stride[1][spatial] = x.strides[0];
		setStrides(audit.b.stride[0], y, spatial, y.strides[0]);
		audit.b.stride[1][0] = y.strides[1];
		setStrides(audit.d.stride[0], w, spatial, w.strides[1]);
		audit.d.stride[1][0] = w.strides[0];
		audit.a.matrixStride = channels * x.strides[1], audit.b.matrixStride = filters * y.strides[1];
		audit.d.matrixStride = filters * w.strides[0];
	} else {
		// The tensors that the product reads and writes, with the channels that it sums over and those of its result.
		const op::Tensor &from = isData ? y : x, &to = isData ? x : y;
		const int ofDepth = isData ? 0 : 1; // dimension of w
		audit.row = positions(to), audit.depth = auditedAxis(w, spatial, isData ? filters : channels);
		audit.column = lower::auditedAxis(isData ? channels : filters);
		audit.a.stride[0][spatial] = from.strides[0], audit.a.stride[1][spatial] = from.strides[1];
		setStrides(audit.b.stride[0], w, spatial, w.strides[ofDepth]);
		audit.b.stride[1][0] = w.strides[1 - ofDepth];
		setStrides(audit.d.stride[0], to, spatial, to.strides[0]);
		audit.d.stride[1][0] = to.strides[1];
		audit.a.matrixStride = (isData ? filters : channels) * from.strides[1];
		audit.b.matrixStride = filters * w.strides[0];
		audit.d.matrixStride = (isData ? channels : filters) * to.strides[1];
	}
	if (convolution.isFlipped)
		flip(isFilter ? audit.d : audit.b, w, spatial, 0);
	audit.c = audit.d;
	audit.c.source = operands.added ? operands.added + (audit.d.source - operands.result) : nullptr;
	audit.alphaValue = operands.alpha, audit.betaValue = operands.added ? operands.beta : 0;
	if (operands.bias) {
		audit.bias = operands.bias, audit.biasOf = kernels::BiasOf::columns;
		audit.biasMatrixStride = filters;
	}
}

} // namespace autoamp::lower
