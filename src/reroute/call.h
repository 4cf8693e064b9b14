// Steps that all calls lowered through casts share: memory, launches, the state of their scales. Any thread.
#pragma once

#include "kernels/launch.h"
#include "src/base/clock.h"
#include "src/base/hash.h"
#include "src/base/own_work.h"
#include "src/reroute/capture.h"
#include "src/reroute/context.h"
#include "src/reroute/dnn_plan.h"
#include "src/reroute/lowering.h"

namespace autoamp::reroute {

constexpr size_t alignment = 256;

inline size_t aligned(size_t bytes)
{
	return (bytes + alignment - 1) / alignment * alignment;
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
	       : failure == cuda::Failure::noPools    ? policy::Reason::no_memory_pools
	                                              : policy::Reason::engine_failed;
}

template <typename Parameters>
bool launch(const cuda::Driver &driver, CUkern_st *kernel, unsigned blocks, cuda::Stream stream, Parameters &parameters)
{
	const base::OwnWork ownWork;
	void *arguments[] = {&parameters};
	// The driver accepts a CUkernel as a CUfunction: it is then the kernel in the current context.
	return driver.cuLaunchKernel(reinterpret_cast<CUfunc_st *>(kernel), blocks, 1, 1, kernels::blockSize, 1, 1, 0,
	                             stream, arguments, nullptr) == 0;
}

// Sets the destination of this call's events.
inline void prepareEvents(kernels::Events &events, const Plan &plan, const Settings &settings, const Context &context)
{
	static constinit std::atomic<uint64_t> calls{0};
	events.site = plan.site;
	if (!settings.reportsEvents)
		return;
	events.ring = context.slots.ringOnDevice();
	events.sites = context.slots.sites();
	events.call = calls.fetch_add(1, std::memory_order_relaxed) + 1;
}

// For a call that casts `first` and `second` to float16: sets the slots of its scales and the destination of its
// events.
inline void prepareScaling(kernels::Scaling &scaling, Plan &plan, const Settings &settings, Context &context,
                           const void *first, const void *second, bool isCapturing)
{
	if (settings.isScaling)
		scaling.predictions = context.slots.predictions();
	scaling.signatureKey = plan.hash;
	scaling.pairKey =
	    base::mix(base::mix(plan.hash, reinterpret_cast<uintptr_t>(first)), reinterpret_cast<uintptr_t>(second));
	prepareEvents(scaling, plan, settings, context);
	if (!settings.reportsEvents) // `first` matters only for events
		return;
	const bool isMet = isCapturing ? plan.lastContextId.load() == context.id + 1
	                               : plan.lastContextId.exchange(context.id + 1) == context.id + 1;
	scaling.first = isMet ? kernels::First::no : isCapturing ? kernels::First::askTotals : kernels::First::yes;
}

// Device memory of one call, released once the call is enqueued.
class CallMemory
{
public:
	CallMemory(const cuda::Driver &driver, Context &context, cuda::Stream stream, bool isCaptured, size_t bytes,
	           bool isUnbounded = false)
	    : driver_(driver), context_(context), stream_(stream), isCaptured_(isCaptured)
	{
		if (!isCaptured)
			context.memory.collect(driver); // memory released by destroyed graphs counts until then
		block_ = isCaptured ? context.memory.allocateForGraph(driver, stream, bytes, isUnbounded)
		                    : context.memory.allocate(driver, stream, bytes, isUnbounded);
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

// Allocates the device memory of one call, converts its operands there and executes it. convert(base) returns null, or
// the step that failed. execute(base) fails only before application memory is written. `hasKernels`: convert() runs
// autoamp kernels.
template <typename Convert, typename Execute>
Outcome runInMemory(const cuda::Driver &driver, Context &context, cuda::Stream stream, bool isCaptured, size_t bytes,
                    bool hasKernels, Convert convert, Execute execute)
{
	if (bytes == 0)
		return execute(cuda::Address{});
	CallMemory memory(driver, context, stream, isCaptured, bytes);
	if (memory.block().failure != cuda::Failure::none)
		return decline(reasonOf(memory.block().failure), "allocating device memory");
	const char *const failed = hasKernels ? convert(memory.block().address) : nullptr;
	Outcome outcome = failed ? decline(policy::Reason::engine_failed, failed) : execute(memory.block().address);
	memory.release(outcome);
	if (!isCaptured && outcome.isDone && hasKernels)
		context.isWarm.store(true, std::memory_order_release);
	return outcome;
}

inline kernels::Tensor tensorOf(const Passage &passage, const void *source, cuda::Address target)
{
	return {static_cast<const float *>(source) + passage.first, reinterpret_cast<uint16_t *>(target), passage.layout,
	        passage.ld, passage.zeroColumns};
}

// Converts both operands of `parameters` to 16 bits in their places, and writes alpha to the scratch memory. Returns
// null, or the step that failed.
inline const char *castTensors(kernels::TensorParameters &parameters, Plan &plan, const Settings &settings, bool isHalf,
                               const void *first, const void *second, const cuda::Driver &driver, Context &context,
                               cuda::Stream stream, cuda::Address scratch, bool isCaptured)
{
	const Kernels *const kernels = conversionKernels(driver);
	if (!kernels)
		return "loading the kernels";
	parameters.scratch = reinterpret_cast<kernels::Scratch *>(scratch);
	const unsigned blocks = kernels::gridSize(parameters, static_cast<unsigned>(context.facts->smCount));
	if (!isHalf) {
		prepareEvents(parameters, plan, settings, context);
		return launch(driver, kernels->castTensorBfloat16, blocks, stream, parameters) ? nullptr : "cuLaunchKernel";
	}
	prepareScaling(parameters, plan, settings, context, first, second, isCaptured);
	kernels::Parameters begun = {};
	static_cast<kernels::Scaling &>(begun) = parameters;
	const bool isLaunched = launch(driver, kernels->begin, 1, stream, begun) &&
	                        launch(driver, kernels->castTensorHalf, blocks, stream, parameters) &&
	                        launch(driver, kernels->settleTensor, blocks, stream, parameters);
	return isLaunched ? nullptr : "cuLaunchKernel";
}

inline bool isNotSupported(op::Status cudnn)
{
	constexpr int notSupported = 3; // in thousands: CUDNN_STATUS_NOT_SUPPORTED and its more specific codes
	return cudnn / 1000 == notSupported;
}

struct FoundPlan {
	const DnnPlan *plan = nullptr;
	Outcome why;
	uint64_t builtNs = 0;
};

// Returns the plan for `key`. A plan is built once, at the first call of any site. graphOf() returns the graph to
// build; prepare(plan) fills in the data stored with it.
template <typename GraphOf, typename Prepare>
FoundPlan findPlan(const op::CudnnGraph &cudnn, const DnnTarget &target, const DnnKey &key, bool isCaptured,
                   GraphOf graphOf, Prepare prepare)
{
	FoundPlan found;
	const DnnPlan *known = knownPlan(key);
	if (!known && isCaptured) {
		found.why = decline(policy::Reason::capture_unready);
		return found;
	}
	if (!known) {
		const uint64_t start = base::nanoseconds(CLOCK_MONOTONIC);
		const bool isRaised = key.precision == op::Dtype::float32;
		DnnAnswer answer;
		DnnPlan *made = makeDnnPlan(cudnn, target, graphOf(), isRaised, answer);
		if (!made && !isNotSupported(answer.status)) {
			found.why = decline(policy::Reason::engine_failed, answer.what, answer.status);
			return found;
		}
		if (!made) // stored: another query would cost every call some milliseconds
			made = new DnnPlan{};
		prepare(*made);
		made->key = key;
		made->status = answer.status, made->what = answer.what;
		found.builtNs = base::nanoseconds(CLOCK_MONOTONIC) - start;
		keepPlan(made);
		known = made;
	}
	if (known->status)
		found.why =
		    decline(key.precision == op::Dtype::float32 ? policy::Reason::unsupported : policy::Reason::no_fp32_output,
		            known->what, known->status),
		found.why.builtNs = found.builtNs;
	else
		found.plan = known;
	return found;
}

// Lowers a cuDNN call on its own stream by run(isCaptured, cudnn, driver). `Part`: the vendor functions that it needs.
template <typename Part = op::CudnnGraph, typename Run>
Outcome runOnStream(const void *known, void *stream, Run run)
{
	const cuda::Driver *const driver = cuda::driver();
	const Part *const cudnn = op::cudnn<Part>(known);
	if (!driver || !cudnn)
		return decline(policy::Reason::unsupported);
	const cuda::RelaxedCapture relaxed(*driver);
	if (!relaxed.isOk())
		return decline(policy::Reason::engine_failed, "cuThreadExchangeStreamCaptureMode");
	const Capture capture = captureOf(*driver, static_cast<cuda::Stream>(stream));
	if (capture == Capture::forbidden)
		return decline(policy::Reason::capture_unready, "cuStreamIsCapturing");
	Outcome outcome = run(capture == Capture::yes, *cudnn, *driver);
	outcome.isCaptured = capture == Capture::yes;
	return outcome;
}

} // namespace autoamp::reroute
