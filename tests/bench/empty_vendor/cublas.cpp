// A libcublas.so.13 that does nothing, so that only autoamp's added cost is measured: create, destroy, cublasSgemm_v2,
// cublasDgemm_v2 and the getters that autoamp calls.
#include <cublas_v2.h>

extern "C" {
cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
	static int one;
	*handle = reinterpret_cast<cublasHandle_t>(&one);
	return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t)
{
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
cublasStatus_t cublasGetSmCountTarget(cublasHandle_t, int *target)
{
	*target = 0;
	return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSgemm_v2(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const float *,
                              const float *, int, const float *, int, const float *, float *, int)
{
	return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDgemm_v2(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const double *,
                              const double *, int, const double *, int, const double *, double *, int)
{
	return CUBLAS_STATUS_SUCCESS;
}
}
