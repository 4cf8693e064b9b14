// Built into plug-ins. Each is linked to libcublas and takes its functions from its GOT, calls them by its PLT (CALLS)
// or has them in a table (TABLE). Others have their own cuBLAS in the same file, like static linking; stubs with
// cuBLAS names over dlopen and dlsym (TRAMPOLINE), which they export or not (HIDDEN); or a constructor that waits for a
// thread which multiplies (JOINER). Meanwhile the waiting thread holds the loader's lock and does not release it.
#include "product.h"

#include <dlfcn.h>

#ifdef JOINER
#include <thread>
#include <unistd.h>
#endif

#ifdef TRAMPOLINE
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

#ifdef JOINER
__attribute__((constructor)) static void join()
{
	std::thread([] {
		for (int i = 0; i < 3; i++)
			if (!multiply({cublasCreate_v2, cublasDestroy_v2, cublasSgemm_v2}))
				_exit(3);
		cublasSasum_v2(nullptr, 0, nullptr, 1, nullptr); // another entry point: resolved separately
	}).join();
}
#endif

extern "C" __attribute__((visibility("default"))) bool pluginMultiplies()
{
#ifdef HIDDEN
	const bool isSeen = true;
#else
	const bool isSeen = dlsym(RTLD_DEFAULT, "cublasSgemm_v2"); // in dependencies that only this file sees
#endif
#if defined(CALLS)
	const Cublas bound = {cublasCreate_v2, cublasDestroy_v2,
	                      [](auto... arguments) { return cublasSgemm_v2(arguments...); }};
#elif defined(TABLE)
	static const Cublas table[] = {{cublasCreate_v2, cublasDestroy_v2, cublasSgemm_v2}};
	static const Cublas *const volatile read = table;
	const Cublas bound = *read;
#else
	const Cublas bound = {cublasCreate_v2, cublasDestroy_v2, cublasSgemm_v2};
#endif
	return multiply(bound) && isSeen;
}
