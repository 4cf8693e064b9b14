// Handles, versions, status texts, the size of the heuristics cache, and logging. Logging has no effect.
#include "tools/emulated/blas/context.h"

#include <cublasLt.h>

#include <atomic>
#include <cstdio>

using emulated::blas::Context;

namespace {

std::atomic<size_t> cacheCapacity{8192}; // default of the real library; no cache exists here

} // namespace

ENTRY(cublasLtCreate, ALLOC_FAILED, lightHandle)
{
	return emulated::blas::create<Context>(Context::Kind::CublasLt, lightHandle);
}

ENTRY(cublasLtDestroy, INVALID_VALUE, lightHandle)
{
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

ENTRY(cublasLtGetProperty, INVALID_VALUE, type, value)
{
	return emulated::blas::property(type, value);
}

ENTRY(cublasLtHeuristicsCacheGetCapacity, INVALID_VALUE, capacity)
{
	if (!capacity)
		return CUBLAS_STATUS_INVALID_VALUE;
	*capacity = cacheCapacity;
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasLtHeuristicsCacheSetCapacity, INVALID_VALUE, capacity)
{
	cacheCapacity = capacity;
	return CUBLAS_STATUS_SUCCESS;
}

#define SILENT(name, ...)                                                                                              \
	ENTRY(name, INVALID_VALUE __VA_OPT__(, ) __VA_ARGS__)                                                              \
	{                                                                                                                  \
		return CUBLAS_STATUS_SUCCESS;                                                                                  \
	}
SILENT(cublasLtLoggerSetCallback, callback)
SILENT(cublasLtLoggerSetFile, file)
SILENT(cublasLtLoggerSetMask, mask)
SILENT(cublasLtLoggerForceDisable)

ENTRY(cublasLtLoggerOpenFile, INVALID_VALUE, logFile)
{
	FILE *file = logFile ? std::fopen(logFile, "a") : nullptr;
	if (!file)
		return CUBLAS_STATUS_INVALID_VALUE;
	std::fclose(file);
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasLtLoggerSetLevel, INVALID_VALUE, level)
{
	constexpr int highest = 6;
	return level >= 0 && level <= highest ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
