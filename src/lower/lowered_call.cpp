#include "src/lower/lowered_call.h"

#include "src/base/hash.h"
#include "src/base/own_work.h"

namespace autoamp::lower {

void LoweredCall::prepareEvents(kernels::Events &events) const
{
	static constinit std::atomic<uint64_t> calls{0};
	events.site = cache.site;
	if (!settings.reportsEvents)
		return;
	events.ring = context->slots.ringOnDevice();
	events.sites = context->slots.sites();
	events.call = calls.fetch_add(1, std::memory_order_relaxed) + 1;
}

void LoweredCall::prepareScaling(kernels::Scaling &scaling, const void *first, const void *second) const
{
	if (settings.isScaling)
		scaling.predictions = context->slots.predictions();
	scaling.signatureKey = cache.hash;
	scaling.pairKey =
	    base::mix(base::mix(cache.hash, reinterpret_cast<uintptr_t>(first)), reinterpret_cast<uintptr_t>(second));
	prepareEvents(scaling);
	if (!settings.reportsEvents) // `first` matters only for events
		return;
	const unsigned long long id = context->id + 1;
	const bool isMet = isCaptured ? cache.lastContextId.load() == id : cache.lastContextId.exchange(id) == id;
	scaling.first = isMet ? kernels::First::no : isCaptured ? kernels::First::askTotals : kernels::First::yes;
}

Outcome LoweredCall::roundInPlace(const Outcome &outcome, float *target, const kernels::TensorLayout &layout) const
{
	kernels::Rounded rounded = {target, layout, rounding()};
	Outcome named = outcome;
	if (outcome.isDone && rounded.rounding != kernels::Rounding::none &&
	    !launch(kernels->round, blocks(rounded), rounded))
		named.failed = "cuLaunchKernel";
	return named;
}

bool LoweredCall::launchKernel(CUkern_st *kernel, unsigned blocks, void **arguments) const
{
	const base::OwnWork ownWork;
	return cuda::launch(*driver, kernel, blocks, kernels::blockSize, stream, arguments, isCaptured) == 0;
}

bool LoweredCall::launchWaiting(CUkern_st *kernel, unsigned blocks, void **arguments) const
{
	const base::OwnWork ownWork;
	return cuda::launchWaiting(*driver, reinterpret_cast<CUfunc_st *>(kernel), blocks, kernels::blockSize, stream,
	                           arguments) == 0;
}

} // namespace autoamp::lower
