// What a lowered call needs of the CUDA context it runs in: kernels, memory, scaling slots. Any thread; made at the
// first lowered call in a context, keyed by the context's id, never freed.
#pragma once

#include "src/cuda/context.h"
#include "src/policy/decision.h"
#include "src/scale/slots.h"

#include <atomic>
#include <cstddef>

namespace autoamp::reroute {

// The conversion kernels (kernels/cast.cu), loaded once a process: a CUlibrary belongs to no context and survives
// cudaDeviceReset.
struct Kernels {
	CUkern_st *begin, *castHalf, *castBfloat16, *settle, *scatter, *sum, *widen;
	CUkern_st *castTensorHalf, *castTensorBfloat16, *settleTensor, *place, *runs;
};
const Kernels *conversionKernels(const cuda::Driver &driver); // null: this driver does not load them

struct Context {
	unsigned long long id;
	const cuda::DeviceFacts *facts;
	cuda::Memory memory;
	scale::Slots slots;
	std::atomic<bool> isWarm{false}; // the conversion kernels have run here outside of capture
	Context *next = nullptr;
};

// Why there is no context; `what` names the step that failed, if one did.
struct ContextAnswer {
	Context *context = nullptr;
	policy::Reason reason = policy::Reason::engine_failed;
	const char *what = nullptr;
};

// The state of the context that is current on this thread and `stream`'s, else bad_argument. `isCapturing`: only one
// that exists already (setting up allocates), and where kernels of ours run (`hasKernels`) is warm, else reason
// capture_unready. A set-up that fails leaves nothing behind that counts and is tried again.
ContextAnswer currentContext(const cuda::Driver &driver, size_t budget, cuda::Stream stream, bool isCapturing,
                             bool hasKernels);

// Every context there is, newest first (walk with ->next).
Context *contexts();
// In a forked child: CUDA does not work there, and what we know of it belongs to the parent.
void forgetContexts();

} // namespace autoamp::reroute
