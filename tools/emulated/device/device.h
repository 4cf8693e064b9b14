// The one emulated device core, as the fronts (cudart, cuda, cublas, cublasLt) see it. Any thread.
// Lives in libautoamp-emulated.so; each front is a thin library with the real SONAME and version node beside it.
// Shares no code with the library it is there to test.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#define EMULATED_EXPORT __attribute__((visibility("default")))

namespace emulated {

// ---- memory: device addresses lie in a PROT_NONE range; the emulator itself reads and writes an alias of it.

// The alias of [address, address + bytes) if the whole range lies inside one live allocation that the device may touch
// (device, managed, pinned or registered host memory); null otherwise (host pointer, freed, out of bounds). Call it
// when the work RUNS, not when it is submitted: memory may be freed between. Pinned memory is its own alias.
EMULATED_EXPORT void *view(const void *address, size_t bytes);

// Stream-ordered scratch for library work (cuBLAS workspaces): plain host memory suffices, so there is none here.

// ---- streams: deferred queues with workers

using Body =
    std::function<cudaError_t()>; // runs on a worker, or again and again when a graph replays: owns its arguments
// Enqueues library work on a stream (legacy and per-thread default streams included), or adds a node to the graph when
// the stream is being captured. A body's error becomes the context's sticky error. `name` shows in diagnostics.
EMULATED_EXPORT cudaError_t submit(cudaStream_t stream, const char *name, Body body);

EMULATED_EXPORT int deviceCount();
EMULATED_EXPORT int currentDevice();
EMULATED_EXPORT int deviceOf(cudaStream_t stream);
EMULATED_EXPORT bool isCapturing(cudaStream_t stream);
EMULATED_EXPORT cudaError_t stickyError();             // cudaSuccess, or what broke the context
EMULATED_EXPORT cudaError_t synchronize(cudaStream_t); // as cudaStreamSynchronize: fails and invalidates in capture
EMULATED_EXPORT bool isUsable();                       // a device exists (AUTOAMP_EMU_DEVICES > 0); initializes CUDA
EMULATED_EXPORT uint64_t deviceGeneration(int device); // grows with every cudaDeviceReset: handles of before are dead

// ---- faults: AUTOAMP_EMU_FAIL=function:N. True when this call of `name` is the N-th and must return its documented
// failure. Every exported function of every front asks first thing, under its exported name.
EMULATED_EXPORT bool mustFail(const char *name);

// A name that is exported but not emulated says so once on stderr; the stub returns its library's NOT_SUPPORTED.
EMULATED_EXPORT void missing(const char *name);

} // namespace emulated
