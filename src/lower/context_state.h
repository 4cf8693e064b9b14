// State of a CUDA context for lowered calls: kernels, memory, scaling slots. Any thread. Made at the first lowered call
// in a context, keyed by the id of the context, never freed.
#pragma once

#include "src/base/once.h"
#include "src/cuda/context.h"
#include "src/lower/weights.h"
#include "src/policy/decision.h"
#include "src/scale/slots.h"

#include <atomic>
#include <cstddef>

namespace autoamp::lower {

// The conversion kernels (kernels/kernels.cu), loaded once per process and image: a CUlibrary does not belong to a
// context and survives cudaDeviceReset.
struct Kernels {
	bool isSettleWaiting; // the settle kernels wait by themselves for the kernel before them
	CUkern_st *castHalf, *castBfloat16, *settle, *mend, *scatter, *sum, *widen;
	CUkern_st *scalerGradients, *scalerUpdate, *watch;
	CUkern_st *auditBefore, *auditAfter;
	CUkern_st *castTensorHalf, *castTensorBfloat16, *settleTensor, *place, *round, *runs;
	// For calls with kept or observed operands, for matrices and tensors.
	struct {
		CUkern_st *castHalf, *settleHalf, *castBfloat16, *settleBfloat16;
	} kept, keptTensor;
};
struct KernelsAnswer {
	const Kernels *kernels = nullptr;
	policy::Reason reason = policy::Reason::driver_too_old; // if null
	cuda::Result status = 0;                                // returned by the driver function that failed
};
// The kernels for GPUs of this compute capability. driver_too_old: there is no image for it, or the driver has refused
// it with a status that does not change. engine_failed: the next call tries again.
KernelsAnswer conversionKernels(const cuda::Driver &driver, int capability);

struct ContextState {
	unsigned long long id;
	const cuda::DeviceFacts *facts;
	cuda::Memory memory;
	scale::Slots slots;
	Weights weights = {};
	std::atomic<bool> isWarm{false};      // the conversion kernels have run here outside of capture
	std::atomic<bool> isAuditWarm{false}; // the audit kernels have
	std::atomic<bool> isProbed{false};    // a probe of a gradient scaler has run here outside of capture
	enum class CapturedProbes : uint8_t { undecided, yes, no };
	std::atomic<CapturedProbes> capturedProbes{CapturedProbes::undecided};
	// The latest scaler events of operands, which can be causes of skipped steps. Used only while `slots` is drained.
	struct Suspects {
		struct {
			uint32_t row;
			kernels::EventKind kind;
			char operand;
			uint64_t ticks;
		} latest[16] = {};
		uint32_t count = 0, countAtUpdate = 0;                // number of events so far, and at the latest update
		uint32_t countAfterUpdate[kernels::scalerCount] = {}; // at the scaler's latest update, plus 1; 0: it had none
	};
	Suspects suspects = {};
	ContextState *next = nullptr;
	// Ids of streams of this context, + 1. The driver never uses the id of a stream again.
	std::atomic<unsigned long long> streams[16] = {};

	// Memory of audits: their own pool, so that they take nothing from the calls. Null: it could not be created.
	cuda::Memory *auditMemory(const cuda::Driver &driver, size_t budget);
	base::Once<cuda::Memory> memoryOfAudits = {};

	// True if the stream is known to belong to this context, which is current. Sets its id + 1; 0: not queried.
	bool knows(const cuda::Driver &driver, cuda::Stream stream, unsigned long long &streamId) const;
};

// `reason`: why there is no context. `what`: the step that failed, if one did.
struct ContextAnswer {
	ContextState *context = nullptr;
	policy::Reason reason = policy::Reason::engine_failed;
	const char *what = nullptr;
	unsigned long long streamId = 0; // id of the stream, + 1; 0: it has none, or is being captured
};

// Returns the state of the context that is current on this thread. If `stream` belongs to another context, the reason
// is bad_argument. If `isCapturing`, the stream is not queried, and only an existing state is returned, because its
// setup allocates; with `hasKernels` it must also be warm. Otherwise the reason is capture_unready, or no_memory_pools.
// A setup that fails leaves no state behind and is repeated at the next call.
ContextAnswer currentContext(const cuda::Driver &driver, size_t budget, cuda::Stream stream, bool isCapturing,
                             bool hasKernels);

// All contexts, newest first (linked by ->next).
ContextState *contexts();
// For a forked child: CUDA does not work there, and the states belong to the parent.
void forgetContexts();

} // namespace autoamp::lower
