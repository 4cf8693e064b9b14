// Probes of the program's gradient scalers: kernels that read the state of a scaler in stream order. Any thread;
// nothing waits. See docs/adr/0052.
#pragma once

#include "src/lower/context_state.h"

namespace autoamp::lower {

struct ProbePlace {
	ContextState *context = nullptr; // null: no probe can be launched now; `reason`
	const Kernels *kernels = nullptr;
	bool isCapturing = false; // the probes become nodes of the program's graph
	const char *reason = nullptr;
};

// The place of the probes around a launch on this stream, in the current context. Inside stream capture: only if probes
// have run in the context before. The first such launch of the process decides for all later ones, so that a sequence
// that is captured twice has the same nodes.
ProbePlace probePlace(const cuda::Driver &driver, size_t budget, cuda::Stream stream);

bool launchProbe(const cuda::Driver &driver, const ProbePlace &place, cuda::Stream stream, kernels::Probe probe);

// True if the address is aligned memory of this device. Other memory must not be read by a probe.
bool isDeviceMemory(const cuda::Driver &driver, const void *address, size_t bytes, int device);

// True if the driver does not know the parameters of the kernel, or if they have these sizes (0: the end).
bool hasParameters(const cuda::Driver &driver, CUkern_st *kernel, const uint8_t *sizes);

} // namespace autoamp::lower
