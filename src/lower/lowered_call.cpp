#include "src/lower/lowered_call.h"

#include "src/base/hash.h"
#include "src/base/own_work.h"
#include "src/lower/capture.h"

namespace autoamp::lower {

namespace {

using policy::Reason;

Reason reasonOf(cuda::Failure failure)
{
	return failure == cuda::Failure::outOfMemory  ? Reason::out_of_memory
	       : failure == cuda::Failure::overBudget ? Reason::memory_budget
	       : failure == cuda::Failure::noPools    ? Reason::no_memory_pools
	                                              : Reason::engine_failed;
}

Outcome findContext(LoweredCall &call, const Family &family)
{
	const ContextAnswer answer =
	    currentContext(*call.driver, call.settings.memoryBudget, call.stream, call.isCaptured, family.needs.kernels);
	call.context = answer.context;
	return answer.context ? completed() : decline(answer.reason, answer.what);
}

cuda::Block allocate(const LoweredCall &call, size_t bytes, bool isUnbounded)
{
	cuda::Memory &memory = call.context->memory;
	if (call.isCaptured)
		return memory.allocateForGraph(*call.driver, call.stream, bytes, isUnbounded);
	memory.collect(*call.driver); // memory released by destroyed graphs counts until then
	return memory.allocate(*call.driver, call.stream, bytes, isUnbounded);
}

void release(const LoweredCall &call, const cuda::Block &block, Outcome &outcome)
{
	cuda::Memory &memory = call.context->memory;
	if (call.isCaptured)
		memory.releaseForGraph(*call.driver, call.stream, block);
	else if (!memory.release(*call.driver, call.stream, block.address) && !outcome.failed)
		outcome.failed = "cuMemFreeAsync";
}

Outcome attempt(LoweredCall &call, Family &family)
{
	Outcome outcome = family.needs.context ? findContext(call, family) : completed();
	if (outcome.isDone)
		outcome = family.prepare(call);
	if (!outcome.isDone)
		return outcome;
	const size_t bytes = family.bytes();
	if (bytes == 0) // no scratch memory, hence nothing that a capture could lack
		return family.enqueue(call);
	if (bytes > call.settings.memoryBudget && !family.needs.unboundedMemory)
		return decline(Reason::memory_budget, "allocating device memory");
	if (!family.needs.context)
		outcome = findContext(call, family);
	if (!outcome.isDone)
		return outcome;
	if (family.needs.kernels) {
		const KernelsAnswer answer = conversionKernels(*call.driver, call.context->facts->capability);
		if (!answer.kernels)
			return decline(answer.reason, "loading the kernels", answer.status);
		call.kernels = answer.kernels;
	}
	const cuda::Block block = allocate(call, bytes, family.needs.unboundedMemory);
	if (block.failure != cuda::Failure::none)
		return decline(reasonOf(block.failure), "allocating device memory");
	const char *const failed = family.convert(call, block.address);
	outcome = failed ? decline(Reason::engine_failed, failed) : family.enqueue(call);
	release(call, block, outcome);
	if (outcome.isDone && family.needs.kernels && !call.isCaptured)
		call.context->isWarm.store(true, std::memory_order_release);
	return outcome;
}

} // namespace

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
	// The driver accepts a CUkernel as a CUfunction: it is then the kernel in the current context.
	return driver->cuLaunchKernel(reinterpret_cast<CUfunc_st *>(kernel), blocks, 1, 1, kernels::blockSize, 1, 1, 0,
	                              stream, arguments, nullptr) == 0;
}

bool LoweredCall::launchWaiting(CUkern_st *kernel, unsigned blocks, void **arguments) const
{
	const base::OwnWork ownWork;
	return cuda::launchWaiting(*driver, reinterpret_cast<CUfunc_st *>(kernel), blocks, kernels::blockSize, stream,
	                           arguments) == 0;
}

Outcome run(LoweredCall &call, Family &family)
{
	call.driver = cuda::driver();
	if (!call.driver)
		return decline(Reason::unsupported);
	const bool isRaised = call.decision.precision == op::Dtype::float32;
	if (!isRaised && call.op.device < deviceLimit && hasFailedTest[call.op.device].load(std::memory_order_relaxed))
		return decline(Reason::self_test_failed);
	call.relaxed.emplace(*call.driver);
	if (!call.relaxed->isOk())
		return decline(Reason::engine_failed, "cuThreadExchangeStreamCaptureMode");
	const Capture capture = captureOf(*call.driver, call.stream);
	if (capture == Capture::forbidden)
		return decline(Reason::capture_unready, "cuStreamIsCapturing");
	call.isCaptured = capture == Capture::yes;
	Outcome outcome = attempt(call, family);
	if (!outcome.isDone && policy::isShortage(outcome.reason))
		if (const char *const event = family.dropWorkspace(call))
			if (Outcome second = attempt(call, family); second.isDone) {
				second.reason = outcome.reason, second.failed = event;
				outcome = second;
			}
	outcome.isCaptured = call.isCaptured;
	outcome.builtNs = call.builtNs;
	return outcome;
}

} // namespace autoamp::lower
