// Stands in for an NVIDIA library that looks cuBLAS up itself.
#include <cublas_v2.h>
#include <dlfcn.h>

extern "C" int cudnnStandIn(cublasHandle_t handle, int m, int n, int k, const float *A, const float *B, float *C)
{
	const float one = 1, zero = 0;
	auto *sgemm = reinterpret_cast<decltype(&cublasSgemm_v2)>(
	    dlsym(dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL), "cublasSgemm_v2"));
	return sgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, A, m, B, k, &zero, C, m);
}
