// Handles, versions, status texts, the size of the heuristics cache, and logging. Logging has no effect.
#include "tools/emulated/blas/context.h"

#include <cublasLt.h>

#include <atomic>
#include <cstdio>

using emulated::blas::Context;

namespace {

std::atomic<size_t> cacheCapacity{8192}; // default of the real library; no cache exists here

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *lightHandle)
{
	FAIL_AS(ALLOC_FAILED);
	if (!lightHandle)
		return CUBLAS_STATUS_INVALID_VALUE;
	auto *made = new Context;
	if (cublasStatus_t status = emulated::blas::open(*made, Context::Kind::CublasLt)) {
		delete made;
		return status;
	}
	*lightHandle = reinterpret_cast<cublasLtHandle_t>(made);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle)
{
	FAIL_AS(INVALID_VALUE);
	Context *context = emulated::blas::live(lightHandle);
	if (!context || context->kind != Context::Kind::CublasLt)
		return CUBLAS_STATUS_INVALID_VALUE;
	emulated::blas::close(context);
	return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
	return emulated::blas::nameOf(status);
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
	return emulated::blas::textOf(status);
}

size_t cublasLtGetVersion(void)
{
	return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
	return CUDART_VERSION;
}

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value)
{
	FAIL_AS(INVALID_VALUE);
	return emulated::blas::property(type, value);
}

cublasStatus_t cublasLtHeuristicsCacheGetCapacity(size_t *capacity)
{
	FAIL_AS(INVALID_VALUE);
	if (!capacity)
		return CUBLAS_STATUS_INVALID_VALUE;
	*capacity = cacheCapacity;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtHeuristicsCacheSetCapacity(size_t capacity)
{
	FAIL_AS(INVALID_VALUE);
	cacheCapacity = capacity;
	return CUBLAS_STATUS_SUCCESS;
}

#define SILENT(name, ...)                                                                                              \
	cublasStatus_t name(__VA_ARGS__)                                                                                   \
	{                                                                                                                  \
		FAIL_AS(INVALID_VALUE);                                                                                        \
		return CUBLAS_STATUS_SUCCESS;                                                                                  \
	}
SILENT(cublasLtLoggerSetCallback, cublasLtLoggerCallback_t)
SILENT(cublasLtLoggerSetFile, FILE *)
SILENT(cublasLtLoggerSetMask, int)
SILENT(cublasLtLoggerForceDisable)

cublasStatus_t cublasLtLoggerOpenFile(const char *logFile)
{
	FAIL_AS(INVALID_VALUE);
	FILE *file = logFile ? std::fopen(logFile, "a") : nullptr;
	if (!file)
		return CUBLAS_STATUS_INVALID_VALUE;
	std::fclose(file);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtLoggerSetLevel(int level)
{
	FAIL_AS(INVALID_VALUE);
	constexpr int highest = 6;
	return level >= 0 && level <= highest ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

} // extern "C"
