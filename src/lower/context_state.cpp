#include "src/lower/context_state.h"

#include "kernels/images.h"
#include "kernels/launch.h"
#include "src/base/faults.h"
#include "src/base/once.h"

#include <algorithm>
#include <iterator>

namespace autoamp::lower {

namespace {

struct Loaded {
	base::Once<const Kernels> kernels;
	std::atomic<cuda::Result> refusal{0}; // status of an image that the driver cannot use
};
constinit Loaded theKernels[kernels::mostImages]; // by index of the image
constinit std::atomic<ContextState *> theContexts{nullptr};

// Null on failure, with its status.
const Kernels *loadKernels(const cuda::Driver &driver, const kernels::Image &image, cuda::Result &status)
{
	CUlib_st *library = nullptr;
	status = driver.cuLibraryLoadData(&library, autoamp_kernel_images + image.offset, nullptr, nullptr, 0, nullptr,
	                                  nullptr, 0);
	if (status)
		return nullptr;
	auto *kernels = new Kernels{};
	kernels->isSettleWaiting = image.architecture >= kernels::firstWaiting;
	const struct {
		CUkern_st **kernel;
		const char *name;
	} wanted[] = {
	    {&kernels->castHalf, "autoamp_cast_half"},
	    {&kernels->castBfloat16, "autoamp_cast_bfloat16"},
	    {&kernels->settle, "autoamp_settle"},
	    {&kernels->mend, "autoamp_mend"},
	    {&kernels->scatter, "autoamp_scatter"},
	    {&kernels->sum, "autoamp_sum"},
	    {&kernels->widen, "autoamp_widen"},
	    {&kernels->scalerGradients, "autoamp_scaler_gradients"},
	    {&kernels->scalerUpdate, "autoamp_scaler_update"},
	    {&kernels->auditBefore, "autoamp_audit_before"},
	    {&kernels->auditAfter, "autoamp_audit_after"},
	    {&kernels->watch, "autoamp_watch"},
	    {&kernels->castTensorHalf, "autoamp_cast_tensor_half"},
	    {&kernels->castTensorBfloat16, "autoamp_cast_tensor_bfloat16"},
	    {&kernels->settleTensor, "autoamp_settle_tensor"},
	    {&kernels->place, "autoamp_place"},
	    {&kernels->round, "autoamp_round"},
	    {&kernels->runs, "autoamp_runs"},
	    {&kernels->kept.castHalf, "autoamp_cast_kept_half"},
	    {&kernels->kept.settleHalf, "autoamp_settle_kept_half"},
	    {&kernels->kept.castBfloat16, "autoamp_cast_kept_bfloat16"},
	    {&kernels->kept.settleBfloat16, "autoamp_settle_kept_bfloat16"},
	    {&kernels->keptTensor.castHalf, "autoamp_cast_kept_half_tensor"},
	    {&kernels->keptTensor.settleHalf, "autoamp_settle_kept_half_tensor"},
	    {&kernels->keptTensor.castBfloat16, "autoamp_cast_kept_bfloat16_tensor"},
	    {&kernels->keptTensor.settleBfloat16, "autoamp_settle_kept_bfloat16_tensor"},
	};
	for (const auto &[kernel, name] : wanted)
		if ((status = driver.cuLibraryGetKernel(kernel, library, name))) {
			delete kernels;
			return nullptr;
		}
	return kernels;
}

ContextState *find(unsigned long long id)
{
	ContextState *context = theContexts.load(std::memory_order_acquire);
	while (context && context->id != id)
		context = context->next;
	return context;
}

ContextAnswer make(const cuda::Driver &driver, const cuda::Current &current, size_t budget, cuda::Stream stream)
{
	const cuda::DeviceFacts *facts = cuda::deviceFacts(driver, current.device);
	if (!facts)
		return {nullptr, policy::Reason::engine_failed, "querying the device"};
	auto *context = new ContextState{current.id, facts, {}, {}};
	const char *what = "creating the memory pool";
	cuda::Failure failure = context->memory.open(driver, current.device, budget);
	if (failure == cuda::Failure::none) {
		what = "allocating the scaling slots";
		failure = context->slots.open(driver, stream);
	}
	if (failure != cuda::Failure::none) {
		context->memory.close(driver);
		delete context;
		const bool isOutOfMemory = failure == cuda::Failure::outOfMemory;
		return {nullptr, isOutOfMemory ? policy::Reason::out_of_memory : policy::Reason::engine_failed, what};
	}
	context->next = theContexts.load(std::memory_order_acquire);
	do {
		// Another thread was faster. Two contexts with one id do no harm (find() returns the newest, and predictions
		// need not be exact), but one is enough.
		if (ContextState *theirs = find(current.id)) {
			context->slots.close(driver);
			context->memory.close(driver);
			delete context;
			return {theirs};
		}
	} while (!theContexts.compare_exchange_weak(context->next, context, std::memory_order_acq_rel));
	return {context};
}

} // namespace

KernelsAnswer conversionKernels(const cuda::Driver &driver, int capability)
{
	const kernels::Image *image = kernels::imageFor(capability);
	if (!image)
		return {};
	Loaded &loaded = theKernels[image - kernels::images().data()];
	if (const cuda::Result refusal = loaded.refusal.load(std::memory_order_relaxed))
		return {nullptr, policy::Reason::driver_too_old, refusal};
	KernelsAnswer answer;
	answer.kernels = loaded.kernels.getOrRetry([&] { return loadKernels(driver, *image, answer.status); });
	if (!answer.kernels && cuda::isImageRefused(answer.status))
		loaded.refusal.store(answer.status, std::memory_order_relaxed);
	else
		answer.reason = policy::Reason::engine_failed;
	return answer;
}

cuda::Memory *ContextState::auditMemory(const cuda::Driver &driver, size_t budget)
{
	return memoryOfAudits.getOrRetry([&]() -> cuda::Memory * {
		auto *made = new cuda::Memory;
		if (made->open(driver, facts->ordinal, budget) == cuda::Failure::none)
			return made;
		made->close(driver);
		delete made;
		return nullptr;
	});
}

bool ContextState::knows(const cuda::Driver &driver, cuda::Stream stream, unsigned long long &streamId) const
{
	streamId = 0;
	constexpr uintptr_t legacy = 1, perThread = 2; // they and the null stream are those of the current context
	if (reinterpret_cast<uintptr_t>(stream) <= std::max(legacy, perThread))
		return true;
	if (driver.cuStreamGetId(stream, &streamId)) {
		base::leaveFault("cuStreamGetId");
		return false;
	}
	++streamId;
	return streams[streamId % std::size(streams)].load(std::memory_order_relaxed) == streamId;
}

ContextAnswer currentContext(const cuda::Driver &driver, size_t budget, cuda::Stream stream, bool isCapturing,
                             bool hasKernels)
{
	cuda::Current current = {};
	if (driver.cuCtxGetId(nullptr, &current.id)) // null: the current context
		return {nullptr, policy::Reason::engine_failed, "cuCtxGetId"};
	ContextState *context = find(current.id);
	unsigned long long streamId = 0;
	// A query of a captured stream for its id invalidates the capture (docs/assumptions.md).
	if (!isCapturing && (!context || !context->knows(driver, stream, streamId))) {
		if (!cuda::currentContext(driver, current))
			return {nullptr, policy::Reason::engine_failed, "querying the current context"};
		CUctx_st *own = nullptr;
		if (driver.cuStreamGetCtx(stream, &own))
			return {nullptr, policy::Reason::engine_failed, "cuStreamGetCtx"};
		if (own != current.handle) // autoamp kernels would run in that context and must not access memory of this one
			return {nullptr, policy::Reason::bad_argument};
		if (streamId)
			context->streams[streamId % std::size(context->streams)].store(streamId, std::memory_order_relaxed);
	}
	if (isCapturing && hasKernels && context && !context->memory.hasPool()) // no call is cast, so none is warm
		return {nullptr, policy::Reason::no_memory_pools};
	if (isCapturing && !(context && (!hasKernels || context->isWarm.load(std::memory_order_acquire))))
		return {nullptr, policy::Reason::capture_unready};
	ContextAnswer answer = context ? ContextAnswer{context} : make(driver, current, budget, stream);
	answer.streamId = streamId;
	return answer;
}

ContextState *contexts()
{
	return theContexts.load(std::memory_order_acquire);
}

void forgetContexts()
{
	theContexts.store(nullptr, std::memory_order_release);
}

} // namespace autoamp::lower
