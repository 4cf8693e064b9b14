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

} // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
	FAIL_AS(ALLOC_FAILED);
	if (!handle)
		return CUBLAS_STATUS_INVALID_VALUE;
	auto *made = new Handle;
	if (cublasStatus_t status = emulated::blas::open(*made, Handle::Kind::Cublas)) {
		delete made;
		return status;
	}
	*handle = reinterpret_cast<cublasHandle_t>(made);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
	FAIL_AS(NOT_INITIALIZED);
	Handle *mine = handleOf(handle);
	if (!mine)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	emulated::synchronize(nullptr); // documented to wait for the device; its error is not reported
	emulated::blas::close(mine);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
	FAIL_AS(NOT_INITIALIZED);
	Handle *mine = handleOf(handle);
	if (!mine)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	mine->stream = stream;
	mine->workspace = nullptr; // cublasSetStream always restores the default pool
	mine->workspaceBytes = 0;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t workspaceSizeInBytes)
{
	FAIL_AS(NOT_INITIALIZED);
	Handle *mine = handleOf(handle);
	if (!mine)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (reinterpret_cast<uintptr_t>(workspace) % workspaceAlignment != 0)
		return CUBLAS_STATUS_INVALID_VALUE;
	mine->workspace = workspace;
	mine->workspaceBytes = workspace ? workspaceSizeInBytes : 0;
	return CUBLAS_STATUS_SUCCESS;
}

#define GETTER(name, type, member)                                                                                     \
	cublasStatus_t name(cublasHandle_t handle, type *value)                                                            \
	{                                                                                                                  \
		FAIL_AS(NOT_INITIALIZED);                                                                                      \
		Handle *mine = handleOf(handle);                                                                               \
		if (!mine)                                                                                                     \
			return CUBLAS_STATUS_NOT_INITIALIZED;                                                                      \
		if (!value)                                                                                                    \
			return CUBLAS_STATUS_INVALID_VALUE;                                                                        \
		*value = mine->member;                                                                                         \
		return CUBLAS_STATUS_SUCCESS;                                                                                  \
	}
#define SETTER(name, type, member, accepted)                                                                           \
	cublasStatus_t name(cublasHandle_t handle, type value)                                                             \
	{                                                                                                                  \
		FAIL_AS(NOT_INITIALIZED);                                                                                      \
		Handle *mine = handleOf(handle);                                                                               \
		if (!mine)                                                                                                     \
			return CUBLAS_STATUS_NOT_INITIALIZED;                                                                      \
		if (!(accepted))                                                                                               \
			return CUBLAS_STATUS_INVALID_VALUE;                                                                        \
		mine->member = value;                                                                                          \
		return CUBLAS_STATUS_SUCCESS;                                                                                  \
	}
#define SETTING(what, suffix, type, member, accepted)                                                                  \
	GETTER(cublasGet##what##suffix, type, member)                                                                      \
	SETTER(cublasSet##what##suffix, type, member, accepted)

GETTER(cublasGetStream_v2, cudaStream_t, stream)
SETTING(PointerMode, _v2, cublasPointerMode_t, pointerMode, value == 0 || value == 1)
SETTING(AtomicsMode, , cublasAtomicsMode_t, atomicsMode, value == 0 || value == 1)
SETTING(MathMode, , cublasMath_t, mathMode, isMathMode(value))
SETTING(SmCountTarget, , int, smCountTarget, value >= 0 && value <= smCount)
SETTING(EmulationStrategy, , cublasEmulationStrategy_t, emulationStrategy, value >= 0 && value <= 2)
SETTING(EmulationSpecialValuesSupport, , cudaEmulationSpecialValuesSupport, specialValues, true)
SETTING(FixedPointEmulationMantissaControl, , cudaEmulationMantissaControl, mantissaControl, value == 0 || value == 1)
SETTING(FixedPointEmulationMaxMantissaBitCount, , int, maxMantissaBitCount, value >= 0)
SETTING(FixedPointEmulationMantissaBitOffset, , int, mantissaBitOffset, true)
SETTING(FixedPointEmulationMantissaBitCountPointer, , int *, mantissaBitCountPointer, true)

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *version)
{
	FAIL_AS(INVALID_VALUE);
	if (!version)
		return CUBLAS_STATUS_INVALID_VALUE;
	*version = CUBLAS_VERSION;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value)
{
	FAIL_AS(INVALID_VALUE);
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
cublasStatus_t cublasLoggerConfigure(int, int, int, const char *)
{
	FAIL_AS(INVALID_VALUE);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetLoggerCallback(cublasLogCallback callback)
{
	FAIL_AS(INVALID_VALUE);
	logCallback = callback;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetLoggerCallback(cublasLogCallback *callback)
{
	FAIL_AS(INVALID_VALUE);
	if (!callback)
		return CUBLAS_STATUS_INVALID_VALUE;
	*callback = logCallback;
	return CUBLAS_STATUS_SUCCESS;
}

} // extern "C"
