// The driver-API functions that the library itself calls, from the libcuda.so.1 that is there. Any thread; found once.
// Types are spelled out so that cuda.h stays inside this folder; driver.cpp checks each against it.
#pragma once

#include "src/base/once.h"

#include "src/base/faults.h"

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUmemPoolHandle_st;
struct CUlib_st;
struct CUkern_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphNode_st;
struct CUuserObject_st;

namespace autoamp::cuda {

using Result = int; // CUresult: 0 is success
using Address = unsigned long long;
using Stream = CUstream_st *;

constexpr Result outOfMemory = 2, notInitialized = 3, lossyQuery = 402;

// name in libcuda, arguments. The `_v2` names are those that cuda.h maps the plain ones to; what has to do with capture
// are the versions that drivers of CUDA 12 and 13 both have.
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
	X(cuStreamIsCapturing, (Stream, int *))                                                                            \
	X(cuStreamGetCaptureInfo_v2,                                                                                       \
	  (Stream, int *, unsigned long long *, CUgraph_st **, CUgraphNode_st *const **, size_t *))                        \
	X(cuStreamUpdateCaptureDependencies, (Stream, CUgraphNode_st **, size_t, unsigned))                                \
	X(cuGraphNodeGetDependencies, (CUgraphNode_st *, CUgraphNode_st **, size_t *))                                     \
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
	X(cuLaunchKernel,                                                                                                  \
	  (CUfunc_st *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **, void **))   \
	X(cuUserObjectCreate, (CUuserObject_st **, void *, void (*)(void *), unsigned, unsigned))                          \
	X(cuUserObjectRelease, (CUuserObject_st *, unsigned))                                                              \
	X(cuGraphRetainUserObject, (CUgraph_st *, CUuserObject_st *, unsigned, unsigned))

struct Driver {
#define X(name, arguments) Result(*name) arguments;
	AUTOAMP_DRIVER_FUNCTIONS(X)
#undef X
	int version;     // 13000 for CUDA 13.0
	bool isEmulated; // its times are not a device's
	// The emulated device's: it calls the function for each kernel of the program that it could not run, with the
	// number of launches since the last call, in the thread that launched it.
	void (*watchRefused)(void (*)(const char *name, unsigned long launches));
};

// Null when there is no driver, or one that lacks a function of the list: asked once, told for ever.
const Driver *loadDriver();
inline constinit base::Once<const Driver> theDriver;
inline const Driver *driver()
{
	return theDriver.get(loadDriver);
}

// Every call of ours that another thread's global-mode capture would forbid stands inside one of these: the thread's
// capture mode is RELAXED there and afterwards as it was.
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
			driver_.cuThreadExchangeStreamCaptureMode(&mode_); // the application's own may not stay RELAXED
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
