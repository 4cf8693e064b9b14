#include "src/lower/audit.h"
#include "src/lower/capture.h"
#include "src/lower/lowered_call.h"

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
	call.streamId = answer.streamId;
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

// The steps that enqueue work. base: device memory of the call; 0: it has none.
Outcome enqueue(LoweredCall &call, Family &family, cuda::Address base)
{
	Outcome outcome;
	Audit audit(call, family);
	const char *const failed = base ? family.convert(call, base) : nullptr;
	outcome = failed ? decline(Reason::engine_failed, failed) : family.enqueue(call);
	if (outcome.isDone && outcome.status == 0)
		audit.succeed();
	outcome.unaudited = audit.skipped();
	return outcome;
}

Outcome attempt(LoweredCall &call, Family &family)
{
	Outcome outcome = family.needs.context ? findContext(call, family) : completed();
	if (outcome.isDone)
		outcome = family.prepare(call);
	if (!outcome.isDone)
		return outcome;
	if (family.bytes() > call.settings.memoryBudget)
		family.dropObservation();
	const size_t bytes = family.bytes();
	if (bytes == 0) // no scratch memory, hence nothing that a capture could lack
		return enqueue(call, family, 0);
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
	cuda::Block block = allocate(call, bytes, family.needs.unboundedMemory);
	const bool isShort = block.failure == cuda::Failure::overBudget || block.failure == cuda::Failure::outOfMemory;
	if (isShort) {
		// The driver has the released memory when the last products with these copies have ended.
		const bool hasRoom = call.context->weights.makeRoom(*call.driver, call.context->memory, bytes);
		const auto retry = [&] { return allocate(call, family.bytes(), family.needs.unboundedMemory || hasRoom); };
		if ((!call.isCaptured && family.dropObservation()) || hasRoom)
			block = retry();
		// The reserve of a captured call decides the edges of its graph. It is dropped only if the copies of graphs
		// hold memory that the driver lacks: the call has as much of the budget as without copies.
		if (call.isCaptured && block.failure == cuda::Failure::outOfMemory && family.dropObservation())
			block = retry();
	}
	if (block.failure != cuda::Failure::none)
		return decline(reasonOf(block.failure), "allocating device memory");
	outcome = enqueue(call, family, block.address);
	release(call, block, outcome);
	if (outcome.isDone && family.needs.kernels && !call.isCaptured)
		call.context->isWarm.store(true, std::memory_order_release);
	return outcome;
}

} // namespace

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
	const bool isSwapped = call.op.flags & op::flagRowD; // the transposed product was computed
	for (int i = 0; i < 2; i++)
		outcome.weights[i] = call.weights[isSwapped ? 1 - i : i];
	return outcome;
}

} // namespace autoamp::lower
