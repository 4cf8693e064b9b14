// The interface of the emulated device for the fronts. Any thread. The device is in libautoamp-emulated.so; each front
// is a thin library next to it, with the real SONAME and version node. Shares no code with libautoamp.so, which is
// tested on this device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#define EMULATED_EXPORT __attribute__((visibility("default")))

namespace emulated {

// ---- memory: device addresses are in a PROT_NONE range; the emulator itself accesses an alias of it.

// The alias of [address, address + bytes) if one live allocation contains the whole range and the device may access it
// (device, managed, pinned or registered host memory). Else null (host pointer, freed, out of bounds). Call it when the
// work RUNS, not when it is submitted: memory may be freed in between. Pinned memory is its own alias.
EMULATED_EXPORT void *view(const void *address, size_t bytes);

// There is no stream-ordered scratch memory for library work such as cuBLAS workspaces: host memory is sufficient.

// ---- streams: deferred queues with workers

using Body =
    std::function<cudaError_t()>; // runs on a worker, repeatedly if a graph is replayed; must own its arguments
// Enqueues library work on a stream, including legacy and per-thread default streams. If the stream is being captured,
// adds a node to the graph. An error of the body becomes the context's sticky error. `name` appears in diagnostics.
EMULATED_EXPORT cudaError_t submit(cudaStream_t stream, const char *name, Body body);

EMULATED_EXPORT int deviceCount();
EMULATED_EXPORT int currentDevice();
EMULATED_EXPORT int deviceOf(cudaStream_t stream);
EMULATED_EXPORT bool isCapturing(cudaStream_t stream);
EMULATED_EXPORT cudaError_t stickyError();             // cudaSuccess, or the error that broke the context
EMULATED_EXPORT cudaError_t synchronize(cudaStream_t); // like cudaStreamSynchronize: fails during capture and
                                                       // invalidates it
EMULATED_EXPORT bool isUsable();                       // a device exists (AUTOAMP_EMU_DEVICES > 0); initializes CUDA
EMULATED_EXPORT uint64_t deviceGeneration(int device); // grows with each cudaDeviceReset, which invalidates older
                                                       // handles

// ---- faults: AUTOAMP_EMU_FAIL=function:N. True if this is the N-th call of `name`, which must return its documented
// failure. Every exported function of every front must call this first, with its exported name.
EMULATED_EXPORT bool mustFail(const char *name);

// Writes one line to stderr. Writes nothing if descriptor 2 is another file than at the start, if a pipe is full or has
// no reader, or beyond the limit of file sizes.
EMULATED_EXPORT void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Reports once on stderr that an exported name is not emulated. The stub returns the NOT_SUPPORTED status of its
// library.
EMULATED_EXPORT void missing(const char *name);

} // namespace emulated
