// What every call that is lowered through casts does alike: memory, launches, the state of its scales. Any thread.
#pragma once

#include "kernels/launch.h"
#include "src/reroute/context.h"
#include "src/reroute/gemm.h"

namespace autoamp::reroute {

constexpr size_t alignment = 256;

inline size_t aligned(size_t bytes)
{
	return (bytes + alignment - 1) / alignment * alignment;
}

inline uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return (hash ^ hash >> 32) | 1; // never 0: that is an empty prediction
}

inline Outcome decline(policy::Reason reason, const char *failed = nullptr, int code = 0)
{
	Outcome outcome;
	outcome.reason = reason, outcome.failed = failed, outcome.code = code;
	return outcome;
}

inline policy::Reason reasonOf(cuda::Failure failure)
{
	return failure == cuda::Failure::outOfMemory  ? policy::Reason::out_of_memory
	       : failure == cuda::Failure::overBudget ? policy::Reason::memory_budget
	                                              : policy::Reason::engine_failed;
}

template <typename Parameters>
bool launch(const cuda::Driver &driver, CUkern_st *kernel, unsigned blocks, cuda::Stream stream, Parameters &parameters)
{
	void *arguments[] = {&parameters};
	// The driver takes a CUkernel where a CUfunction is wanted: it is the kernel of the current context.
	return driver.cuLaunchKernel(reinterpret_cast<CUfunc_st *>(kernel), blocks, 1, 1, kernels::blockSize, 1, 1, 0,
	                             stream, arguments, nullptr) == 0;
}

enum class Capture { no, yes, forbidden };

inline Capture captureOf(const cuda::Driver &driver, cuda::Stream stream)
{
	int status = 0;
	// An error here is the legacy stream's while another stream is captured: nothing may be touched.
	if (driver.cuStreamIsCapturing(stream, &status))
		return Capture::forbidden;
	return status == 0 ? Capture::no : status == 1 ? Capture::yes : Capture::forbidden;
}

// Of a call that casts `first` and `second` to float16: where its scales are kept, whom they are told to.
inline void prepareScaling(kernels::Scaling &scaling, Plan &plan, const Settings &settings, Context &context,
                           const void *first, const void *second, bool isCapturing)
{
	if (settings.isScaling)
		scaling.predictions = context.slots.predictions();
	scaling.signatureKey = plan.hash;
	scaling.pairKey = mix(mix(plan.hash, reinterpret_cast<uintptr_t>(first)), reinterpret_cast<uintptr_t>(second));
	scaling.ring = context.slots.ringOnDevice();
	scaling.site = plan.site;
	const bool isMet =
	    isCapturing ? plan.metIn.load() == context.id + 1 : plan.metIn.exchange(context.id + 1) == context.id + 1;
	scaling.first = isMet ? kernels::First::no : isCapturing ? kernels::First::askTotals : kernels::First::yes;
}

// One call's block of device memory, given back when the call is enqueued.
class CallMemory
{
public:
	CallMemory(const cuda::Driver &driver, Context &context, cuda::Stream stream, bool isCaptured, size_t bytes)
	    : driver_(driver), context_(context), stream_(stream), isCaptured_(isCaptured)
	{
		if (!isCaptured)
			context.memory.collect(driver); // what destroyed graphs gave back counts until then
		block_ = isCaptured ? context.memory.allocateForGraph(driver, stream, bytes)
		                    : context.memory.allocate(driver, stream, bytes);
	}
	const cuda::Block &block() const { return block_; }
	void release(Outcome &outcome)
	{
		if (isCaptured_)
			context_.memory.releaseForGraph(driver_, stream_, block_);
		else if (!context_.memory.release(driver_, stream_, block_.address) && !outcome.failed)
			outcome.failed = "cuMemFreeAsync";
	}

private:
	const cuda::Driver &driver_;
	Context &context_;
	cuda::Stream stream_;
	bool isCaptured_;
	cuda::Block block_;
};

} // namespace autoamp::reroute
