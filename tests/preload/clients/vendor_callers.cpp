// A program that multiplies by itself once and lets stand-ins for cuSOLVER and cuDNN multiply.
#include "product.h"

extern "C" int cusolverStandIn(cublasHandle_t, int, int, int, const float *, const float *, float *);
extern "C" int cudnnStandIn(cublasHandle_t, int, int, int, const float *, const float *, float *);

static bool isRight(int (*function)(cublasHandle_t, int, int, int, const float *, const float *, float *))
{
	const int m = 64, n = 48, k = 32;
	Operands host(m, n, k);
	const DeviceMatrix A(host.A), B(host.B), C(host.C);
	cublasHandle_t handle = nullptr;
	cublasCreate(&handle);
	const int status = function(handle, m, n, k, A.data, B.data, C.data);
	cudaMemcpy(host.C.data(), C.data, C.size, cudaMemcpyDeviceToHost);
	cublasDestroy(handle);
	return status == CUBLAS_STATUS_SUCCESS && productError(host, m, n, k) < 5e-3;
}

int main()
{
	return !(multiply({cublasCreate_v2, cublasDestroy_v2, cublasSgemm_v2}) && isRight(cusolverStandIn) &&
	         isRight(cudnnStandIn));
}
