#include "src/lower/probe.h"

#include "src/base/own_work.h"
#include "src/lower/capture.h"

namespace autoamp::lower {

namespace {

// Two captures of one sequence must have the same nodes, or cudaGraphExecUpdate fails. The first captured update of a
// context decides for its later ones. An update that is captured before its context has a state decides for all
// contexts that are undecided.
bool isCapturedProbed(ContextState *context)
{
	using Decision = ContextState::CapturedProbes;
	static constinit std::atomic<bool> isRefused{false};
	if (!context) {
		isRefused.store(true, std::memory_order_relaxed);
		return false;
	}
	const bool isReady =
	    context->isProbed.load(std::memory_order_acquire) && !isRefused.load(std::memory_order_relaxed);
	Decision decision = Decision::undecided;
	const Decision now = isReady ? Decision::yes : Decision::no;
	if (context->capturedProbes.compare_exchange_strong(decision, now, std::memory_order_acq_rel))
		decision = now;
	return decision == Decision::yes;
}

} // namespace

ProbePlace probePlace(const cuda::Driver &driver, size_t budget, cuda::Stream stream)
{
	int device = 0; // the update can be the first CUDA call of its thread
	if (!cuda::currentDevice(driver, device))
		return {.reason = "no context is current"};
	const Capture capture = captureOf(driver, stream);
	if (capture == Capture::forbidden)
		return {.reason = "an update on the legacy stream, while another stream is captured"};
	ProbePlace place;
	place.isCapturing = capture == Capture::yes;
	ContextState *const context = currentContext(driver, budget, stream, place.isCapturing, false).context;
	if (place.isCapturing && !isCapturedProbed(context))
		return {.reason = "an update was captured into a graph before one ran outside of graphs"};
	if (!context)
		return {.reason = "the state of the context could not be made"};
	if (!context->slots.ringOnDevice())
		return {.reason = "the device cannot map host memory"};
	place.kernels = conversionKernels(driver, context->facts->capability).kernels;
	if (!place.kernels)
		return {.reason = "autoamp's kernels could not be loaded"};
	place.context = context;
	return place;
}

bool launchProbe(const cuda::Driver &driver, const ProbePlace &place, cuda::Stream stream, kernels::Probe probe)
{
	const base::OwnWork ownWork;
	const base::OwnedWork hidden(base::hiddenOwner); // the probes belong to no call
	probe.ring = place.context->slots.ringOnDevice();
	void *arguments[] = {&probe};
	const bool isLaunched = cuda::launch(driver, place.kernels->watch, 1, 1, stream, arguments, place.isCapturing) == 0;
	if (isLaunched && !place.isCapturing)
		place.context->isProbed.store(true, std::memory_order_release);
	return isLaunched;
}

bool isDeviceMemory(const cuda::Driver &driver, const void *address, size_t bytes, int device)
{
	constexpr int memoryType = 2, deviceOrdinal = 9; // CU_POINTER_ATTRIBUTE_
	constexpr unsigned onDevice = 2, unified = 4;    // CU_MEMORYTYPE_
	const auto pointer = reinterpret_cast<cuda::Address>(address);
	unsigned type = 0;
	int owner = -1;
	return pointer && pointer % bytes == 0 && driver.cuPointerGetAttribute(&type, memoryType, pointer) == 0 &&
	       (type == onDevice || type == unified) && driver.cuPointerGetAttribute(&owner, deviceOrdinal, pointer) == 0 &&
	       owner == device;
}

bool hasParameters(const cuda::Driver &driver, CUkern_st *kernel, const uint8_t *sizes)
{
	constexpr cuda::Result invalidValue = 1;
	if (!driver.cuKernelGetParamInfo || !kernel) // older than CUDA 12.4
		return true;
	for (size_t i = 0;; i++) {
		size_t offset = 0, size = 0;
		const cuda::Result result = driver.cuKernelGetParamInfo(kernel, i, &offset, &size);
		if (result && (result != invalidValue || i == 0))
			return true; // not known
		if (result || !sizes[i])
			return result && !sizes[i];
		if (size != sizes[i])
			return false;
	}
}

} // namespace autoamp::lower
