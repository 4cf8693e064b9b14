// The part of the libcublas stand-in that is not generated: handles, the getters that a wrapper may call, and one
// product.
#include "stand_in.h"

#include <cublasLt.h>
#include <cublas_v2.h>

static int handles; // its address is the value of every handle
static cublasLogCallback logger;

extern "C" {
cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
	*handle = reinterpret_cast<cublasHandle_t>(&handles);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t)
{
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetLoggerCallback(cublasLogCallback callback)
{
	logger = callback;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream_v2(cublasHandle_t, cudaStream_t *stream)
{
	*stream = nullptr;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t, cublasPointerMode_t *mode)
{
	*mode = CUBLAS_POINTER_MODE_HOST;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t, cublasMath_t *mode)
{
	*mode = CUBLAS_DEFAULT_MATH;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *version)
{
	*version = CUBLAS_VERSION;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                              int k, const float *alpha, const float *A, int lda, const float *B, int ldb,
                              const float *beta, float *C, int ldc)
{
#ifndef CARRIED
	// Like the real one for some types: calls a public function of its own cublasLt, and of no other copy.
	const char *inner = nullptr;
	standInRemember("", 0);
	cublasLtMatrixTransform(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
	                        nullptr);
	standInLast(&inner);
	if (std::strcmp(inner, "cublasLtMatrixTransform") != 0)
		return CUBLAS_STATUS_INTERNAL_ERROR;
#endif
	standInRemember("cublasSgemm_v2", checksum(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc));
	if (handle != reinterpret_cast<cublasHandle_t>(&handles)) // the arguments are only counted
		return CUBLAS_STATUS_INVALID_VALUE;
	if (logger)
		logger("cublasSgemm_v2");
	for (int j = 0; j < n; j++)
		for (int i = 0; i < m; i++) {
			float sum = 0;
			for (int l = 0; l < k; l++)
				sum += A[transa == CUBLAS_OP_N ? i + l * lda : l + i * lda] *
				       B[transb == CUBLAS_OP_N ? l + j * ldb : j + l * ldb];
			C[i + j * ldc] = *alpha * sum + (*beta != 0 ? *beta * C[i + j * ldc] : 0);
		}
	return CUBLAS_STATUS_SUCCESS;
}
}
