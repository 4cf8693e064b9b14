// cublasXt: handles and settings. It has the same routines as cuBLAS, for matrices in host or device memory. They run
// on the CPU and complete before they return. Undocumented results are those of the real library on a machine without a
// device.
#include "tools/emulated/cublas/call.h"

namespace emulated::cublas {

namespace {

struct XtHandle : Handle {
	bool hasDevices = false;
	int blockDim = 1024;
	cublasXtPinnedMemMode_t pinning = CUBLASXT_PINNING_DISABLED;
};

XtHandle *xtHandleOf(cublasXtHandle_t handle)
{
	auto *mine = reinterpret_cast<XtHandle *>(handle);
	return mine && mine->kind == blas::Context::Kind::CublasXt ? mine : nullptr;
}

// The routines for which the real library accepts a CPU routine: products, and Hermitian ones of complex types. The
// setting has no effect here.
cublasStatus_t checkCpu(cublasXtBlasOp_t routine, cublasXtOpType_t type)
{
	if (routine < 0 || routine >= CUBLASXT_ROUTINE_MAX || type < 0 || type > CUBLASXT_DOUBLECOMPLEX)
		return CUBLAS_STATUS_INVALID_VALUE;
	const bool isHermitian =
	    routine == CUBLASXT_HERK || routine == CUBLASXT_HEMM || routine == CUBLASXT_HER2K || routine == CUBLASXT_HERKX;
	const bool isKnown = routine == CUBLASXT_GEMM || (isHermitian && type >= CUBLASXT_COMPLEX);
	return isKnown ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

} // namespace

cublasStatus_t enter(cublasXtHandle_t handle, Call &call, Routine &routine)
{
	if (mustFail(call.name))
		return CUBLAS_STATUS_EXECUTION_FAILED;
	XtHandle *mine = xtHandleOf(handle);
	call.handle = mine;
	return mine && mine->hasDevices ? routine(call) : CUBLAS_STATUS_NOT_INITIALIZED;
}

} // namespace emulated::cublas

using namespace emulated::cublas;

// The first statements of all functions with a handle.
#define BEGIN(...)                                                                                                     \
	XtHandle *mine = xtHandleOf(handle);                                                                               \
	if (!mine || !(__VA_ARGS__))                                                                                       \
		return CUBLAS_STATUS_INVALID_VALUE;

ENTRY(cublasXtCreate, ALLOC_FAILED, handle)
{
	if (!handle)
		return CUBLAS_STATUS_INVALID_VALUE;
	auto *made = new XtHandle;
	made->kind = XtHandle::Kind::CublasXt; // needs no device yet
	*handle = reinterpret_cast<cublasXtHandle_t>(made);
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasXtDestroy, INVALID_VALUE, handle)
{
	BEGIN(true)
	emulated::blas::close(mine);
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasXtMaxBoards, INVALID_VALUE, nbGpuBoards)
{
	if (!nbGpuBoards)
		return CUBLAS_STATUS_INVALID_VALUE;
	*nbGpuBoards = 1024;
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasXtGetNumBoards, INVALID_VALUE, nbDevices, deviceId, nbBoards)
{
	if (nbDevices < 0)
		return CUBLAS_STATUS_ALLOC_FAILED;
	for (int i = 0; i < nbDevices; ++i)
		if (deviceId[i] < 0 || deviceId[i] >= emulated::deviceCount())
			return CUBLAS_STATUS_INVALID_VALUE;
	if (nbDevices > 0)
		*nbBoards = nbDevices;
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasXtDeviceSelect, INVALID_VALUE, handle, nbDevices, deviceId)
{
	BEGIN(nbDevices > 0 && deviceId)
	for (int i = 0; i < nbDevices; ++i)
		if (deviceId[i] < 0 || deviceId[i] >= emulated::deviceCount())
			return CUBLAS_STATUS_INVALID_VALUE;
	mine->hasDevices = true;
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasXtSetBlockDim, INVALID_VALUE, handle, blockDim)
{
	BEGIN(blockDim > 0)
	mine->blockDim = blockDim;
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasXtGetBlockDim, INVALID_VALUE, handle, blockDim)
{
	BEGIN(blockDim)
	*blockDim = mine->blockDim;
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasXtSetPinningMemMode, INVALID_VALUE, handle, mode)
{
	BEGIN(mode == CUBLASXT_PINNING_DISABLED || mode == CUBLASXT_PINNING_ENABLED)
	mine->pinning = mode;
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasXtGetPinningMemMode, INVALID_VALUE, handle, mode)
{
	BEGIN(mode)
	*mode = mine->pinning;
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasXtSetCpuRoutine, INVALID_VALUE, handle, blasOp, type, unused)
{
	BEGIN(true)
	return checkCpu(blasOp, type);
}

ENTRY(cublasXtSetCpuRatio, INVALID_VALUE, handle, blasOp, type, unused)
{
	BEGIN(true)
	return checkCpu(blasOp, type);
}
