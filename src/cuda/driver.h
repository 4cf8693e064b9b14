// Driver API functions that autoamp itself calls, from the installed libcuda.so.1. Any thread; resolved once. The
// signatures are spelled out so that only this folder includes cuda.h; driver.cpp checks each of them.
#pragma once

#include "src/base/once.h"

#include "src/base/faults.h"

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmemPoolHandle_st;
struct CUlib_st;
struct CUkern_st;
struct CUlaunchConfig_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUuserObject_st;

namespace autoamp::cuda {

using Result = int; // CUresult: 0 is success
using Address = unsigned long long;
using Stream = CUstream_st *;

constexpr Result outOfMemory = 2, notInitialized = 3, lossyQuery = 402, notReady = 600;
// True if this driver cannot use an image at all. Other failures, like a lack of memory, can pass.
bool isImageRefused(Result loading);

// X(name in libcuda, arguments). The `_v2` names are those to which cuda.h maps the plain ones. Functions for capture
// have the version that drivers of CUDA 12 and CUDA 13 both export.
#define AUTOAMP_DRIVER_FUNCTIONS(X)                                                                                    \
	X(cuDriverGetVersion, (int *))                                                                                     \
	X(cuDeviceGetCount, (int *))                                                                                       \
	X(cuDeviceGetAttribute, (int *, int, int))                                                                         \
	X(cuDeviceGetName, (char *, int, int))                                                                             \
	X(cuCtxGetCurrent, (CUctx_st **))                                                                                  \
	X(cuCtxGetId, (CUctx_st *, unsigned long long *))                                                                  \
	X(cuCtxGetDevice, (int *))                                                                                         \
	X(cuCtxSetCurrent, (CUctx_st *))                                                                                   \
	X(cuDevicePrimaryCtxGetState, (int, unsigned *, int *))                                                            \
	X(cuDevicePrimaryCtxRetain, (CUctx_st **, int))                                                                    \
	X(cuDevicePrimaryCtxRelease_v2, (int))                                                                             \
	X(cuThreadExchangeStreamCaptureMode, (int *))                                                                      \
	X(cuStreamGetCtx, (Stream, CUctx_st **))                                                                           \
	X(cuStreamGetId, (Stream, unsigned long long *))                                                                   \
	X(cuStreamIsCapturing, (Stream, int *))                                                                            \
	X(cuStreamGetCaptureInfo_v2,                                                                                       \
	  (Stream, int *, unsigned long long *, CUgraph_st **, CUgraphNode_st *const **, size_t *))                        \
	X(cuStreamUpdateCaptureDependencies, (Stream, CUgraphNode_st **, size_t, unsigned))                                \
	X(cuGraphNodeGetDependencies, (CUgraphNode_st *, CUgraphNode_st **, size_t *))                                     \
	X(cuStreamCreateWithPriority, (Stream *, unsigned, int))                                                           \
	X(cuStreamDestroy_v2, (Stream))                                                                                    \
	X(cuStreamSynchronize, (Stream))                                                                                   \
	X(cuStreamQuery, (Stream))                                                                                         \
	X(cuStreamWaitEvent, (Stream, CUevent_st *, unsigned))                                                             \
	X(cuEventCreate, (CUevent_st **, unsigned))                                                                        \
	X(cuEventDestroy_v2, (CUevent_st *))                                                                               \
	X(cuEventQuery, (CUevent_st *))                                                                                    \
	X(cuEventRecord, (CUevent_st *, Stream))                                                                           \
	X(cuEventSynchronize, (CUevent_st *))                                                                              \
	X(cuMemcpyHtoDAsync_v2, (Address, const void *, size_t, Stream))                                                   \
	X(cuMemcpyDtoHAsync_v2, (void *, Address, size_t, Stream))                                                         \
	X(cuPointerGetAttribute, (void *, int, Address))                                                                   \
	X(cuMemGetInfo_v2, (size_t *, size_t *))                                                                           \
	X(cuMemAlloc_v2, (Address *, size_t))                                                                              \
	X(cuMemFree_v2, (Address))                                                                                         \
	X(cuMemsetD8Async, (Address, unsigned char, size_t, Stream))                                                       \
	X(cuMemHostRegister_v2, (void *, size_t, unsigned))                                                                \
	X(cuMemHostUnregister, (void *))                                                                                   \
	X(cuMemHostGetDevicePointer_v2, (Address *, void *, unsigned))                                                     \
	X(cuMemPoolCreate, (CUmemPoolHandle_st **, const void *))                                                          \
	X(cuMemPoolDestroy, (CUmemPoolHandle_st *))                                                                        \
	X(cuMemPoolSetAttribute, (CUmemPoolHandle_st *, int, void *))                                                      \
	X(cuMemPoolGetAttribute, (CUmemPoolHandle_st *, int, void *))                                                      \
	X(cuMemPoolTrimTo, (CUmemPoolHandle_st *, size_t))                                                                 \
	X(cuMemAllocFromPoolAsync, (Address *, size_t, CUmemPoolHandle_st *, Stream))                                      \
	X(cuMemFreeAsync, (Address, Stream))                                                                               \
	X(cuLibraryLoadData, (CUlib_st **, const void *, int *, void **, unsigned, int *, void **, unsigned))              \
	X(cuLibraryGetKernel, (CUkern_st **, CUlib_st *, const char *))                                                    \
	X(cuKernelGetFunction, (CUfunc_st **, CUkern_st *))                                                                \
	X(cuLaunchKernel,                                                                                                  \
	  (CUfunc_st *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **, void **))   \
	X(cuLaunchKernelEx, (const CUlaunchConfig_st *, CUfunc_st *, void **, void **))                                    \
	X(cuUserObjectCreate, (CUuserObject_st **, void *, void (*)(void *), unsigned, unsigned))                          \
	X(cuUserObjectRelease, (CUuserObject_st *, unsigned))                                                              \
	X(cuGraphRetainUserObject, (CUgraph_st *, CUuserObject_st *, unsigned, unsigned))

struct Driver {
#define X(name, arguments) Result(*name) arguments;
	AUTOAMP_DRIVER_FUNCTIONS(X)
#undef X
	int version;     // 13000 for CUDA 13.0
	bool isEmulated; // times of the emulated device are not real
	Result (*cuKernelGetParamInfo)(CUkern_st *, size_t, size_t *, size_t *); // null: older than CUDA 12.4
	// Only on the emulated device. Calls the function for each kernel of the program that could not run, on the thread
	// that launched it, with the number of launches since the last such call.
	void (*watchRefused)(void (*)(const char *name, unsigned long launches));
};

// Returns null without a driver, or if it lacks a function of the list. The result is kept for the lifetime of the
// process.
const Driver *loadDriver();
inline constinit base::Once<const Driver> theDriver;
inline const Driver *driver()
{
	return theDriver.get(loadDriver);
}

// Launches a kernel of one-dimensional blocks. A CUkernel runs in the context of the stream. A captured stream is not
// asked for its context (docs/assumptions.md), so `isCaptured` launches the function of the current context, which
// the driver refuses on a stream of another one.
Result launch(const Driver &driver, CUkern_st *kernel, unsigned blocks, unsigned threads, Stream stream,
              void **arguments, bool isCaptured);

// Launches a kernel that waits by itself for the kernel before it in the stream, from sm_90 on (griddepcontrol.wait):
// its blocks may start when those of the earlier kernel have ended, before their writes are visible.
Result launchWaiting(const Driver &driver, CUfunc_st *kernel, unsigned blocks, unsigned threads, Stream stream,
                     void **arguments);

// Sets the capture mode of this thread to RELAXED for its lifetime, then restores the mode. It must enclose every
// driver call of autoamp that a global-mode capture on another thread would forbid.
class RelaxedCapture
{
public:
	explicit RelaxedCapture(const Driver &driver)
	    : driver_(driver), isOk_(driver.cuThreadExchangeStreamCaptureMode(&mode_) == 0)
	{
	}
	~RelaxedCapture()
	{
		if (isOk_ && driver_.cuThreadExchangeStreamCaptureMode(&mode_)) {
			base::leaveFault("cuThreadExchangeStreamCaptureMode");
			driver_.cuThreadExchangeStreamCaptureMode(&mode_); // again: the application must not stay RELAXED
		}
	}
	RelaxedCapture(const RelaxedCapture &) = delete;
	RelaxedCapture &operator=(const RelaxedCapture &) = delete;
	bool isOk() const { return isOk_; }

private:
	const Driver &driver_;
	int mode_ = 2; // CU_STREAM_CAPTURE_MODE_RELAXED
	bool isOk_;
};

} // namespace autoamp::cuda
