// Handles and their settings, versions, status texts, logging.
#include "tools/emulated/cublas/handle.h"

#include <atomic>

using emulated::cublas::Handle;
using emulated::cublas::handleOf;

namespace {

constexpr int smCount = 132; // the H100, whose constants the device reports
constexpr uintptr_t workspaceAlignment = 256;
std::atomic<cublasLogCallback> logCallback;

bool isMathMode(int mode)
{
	constexpr int fp64Emulation = CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH;
	mode &= ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION; // a flag in addition to the modes
	return mode >= 0 && (mode & ~fp64Emulation) <= CUBLAS_FP32_EMULATED_BF16X9_MATH;
}

template <typename Value>
cublasStatus_t get(cublasHandle_t handle, Value Handle::*member, Value *value)
{
	Handle *mine = handleOf(handle);
	if (!mine)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (!value)
		return CUBLAS_STATUS_INVALID_VALUE;
	*value = mine->*member;
	return CUBLAS_STATUS_SUCCESS;
}

template <typename Value>
cublasStatus_t set(cublasHandle_t handle, Value Handle::*member, Value value, bool isAccepted)
{
	Handle *mine = handleOf(handle);
	if (!mine)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (!isAccepted)
		return CUBLAS_STATUS_INVALID_VALUE;
	mine->*member = value;
	return CUBLAS_STATUS_SUCCESS;
}

} // namespace

ENTRY(cublasCreate_v2, ALLOC_FAILED, handle)
{
	return emulated::blas::create<Handle>(Handle::Kind::Cublas, handle);
}

ENTRY(cublasDestroy_v2, NOT_INITIALIZED, handle)
{
	Handle *mine = handleOf(handle);
	if (!mine)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	emulated::synchronize(nullptr); // documented to wait for the device; its error is not reported
	emulated::blas::close(mine);
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasSetStream_v2, NOT_INITIALIZED, handle, stream)
{
	Handle *mine = handleOf(handle);
	if (!mine)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	mine->stream = stream;
	mine->workspace = nullptr; // cublasSetStream always restores the default pool
	mine->workspaceBytes = 0;
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasSetWorkspace_v2, NOT_INITIALIZED, handle, workspace, workspaceSizeInBytes)
{
	Handle *mine = handleOf(handle);
	if (!mine)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (reinterpret_cast<uintptr_t>(workspace) % workspaceAlignment != 0)
		return CUBLAS_STATUS_INVALID_VALUE;
	mine->workspace = workspace;
	mine->workspaceBytes = workspace ? workspaceSizeInBytes : 0;
	return CUBLAS_STATUS_SUCCESS;
}

#define GETTER(name, member)                                                                                           \
	ENTRY(name, NOT_INITIALIZED, handle, value)                                                                        \
	{                                                                                                                  \
		return get(handle, &Handle::member, value);                                                                    \
	}
#define SETTING(what, suffix, member, isAccepted)                                                                      \
	GETTER(cublasGet##what##suffix, member)                                                                            \
	ENTRY(cublasSet##what##suffix, NOT_INITIALIZED, handle, value)                                                     \
	{                                                                                                                  \
		return set(handle, &Handle::member, value, isAccepted);                                                        \
	}
GETTER(cublasGetStream_v2, stream)
SETTING(PointerMode, _v2, pointerMode, value == 0 || value == 1)
SETTING(AtomicsMode, , atomicsMode, value == 0 || value == 1)
SETTING(MathMode, , mathMode, isMathMode(value))
SETTING(SmCountTarget, , smCountTarget, value >= 0 && value <= smCount)
SETTING(EmulationSpecialValuesSupport, , specialValues, true)
SETTING(FixedPointEmulationMantissaControl, , mantissaControl, value == 0 || value == 1)
SETTING(FixedPointEmulationMaxMantissaBitCount, , maxMantissaBitCount, value >= 0)
SETTING(FixedPointEmulationMantissaBitOffset, , mantissaBitOffset, true)
SETTING(FixedPointEmulationMantissaBitCountPointer, , mantissaBitCountPointer, true)

// The header overloads these two names, so that ENTRY cannot take their types from it.
cublasStatus_t cublasGetEmulationStrategy(cublasHandle_t handle, cublasEmulationStrategy_t *value)
{
	return emulated::mustFail(__func__) ? FAILED(NOT_INITIALIZED) : get(handle, &Handle::emulationStrategy, value);
}

cublasStatus_t cublasSetEmulationStrategy(cublasHandle_t handle, cublasEmulationStrategy_t value)
{
	return emulated::mustFail(__func__) ? FAILED(NOT_INITIALIZED)
	                                    : set(handle, &Handle::emulationStrategy, value, value >= 0 && value <= 2);
}

ENTRY(cublasGetVersion_v2, INVALID_VALUE, unused, version)
{
	if (!version)
		return CUBLAS_STATUS_INVALID_VALUE;
	*version = CUBLAS_VERSION;
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasGetProperty, INVALID_VALUE, type, value)
{
	return emulated::blas::property(type, value);
}

size_t cublasGetCudartVersion(void)
{
	return CUDART_VERSION;
}

const char *cublasGetStatusName(cublasStatus_t status)
{
	return emulated::blas::nameOf(status);
}

const char *cublasGetStatusString(cublasStatus_t status)
{
	return emulated::blas::textOf(status);
}

// Logging is accepted and has no effect: the emulated libraries print nothing.
ENTRY(cublasLoggerConfigure, INVALID_VALUE, unused, unused2, unused3, unused4)
{
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasSetLoggerCallback, INVALID_VALUE, callback)
{
	logCallback = callback;
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasGetLoggerCallback, INVALID_VALUE, callback)
{
	if (!callback)
		return CUBLAS_STATUS_INVALID_VALUE;
	*callback = logCallback;
	return CUBLAS_STATUS_SUCCESS;
}
