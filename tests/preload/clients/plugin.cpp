// Built into three plug-ins: linked to libcublas; with a cuBLAS of its own in the same file, as static linking leaves
// it; and (TRAMPOLINE) with stubs of cuBLAS names over dlopen and dlsym.
#include "product.h"

#ifdef TRAMPOLINE
#include <dlfcn.h>

template <typename Fn>
static Fn *look(Fn *, const char *name)
{
	static void *library = dlopen("libcublas.so.13", RTLD_NOW | RTLD_LOCAL);
	return reinterpret_cast<Fn *>(dlsym(library, name));
}

extern "C" {
cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
	return look(cublasCreate_v2, "cublasCreate_v2")(handle);
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
	return look(cublasDestroy_v2, "cublasDestroy_v2")(handle);
}
cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                              int k, const float *alpha, const float *A, int lda, const float *B, int ldb,
                              const float *beta, float *C, int ldc)
{
	return look(cublasSgemm_v2, "cublasSgemm_v2")(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}
}
#endif

extern "C" bool pluginMultiplies()
{
	return multiply({cublasCreate_v2, cublasDestroy_v2, cublasSgemm_v2});
}
