// Another library for LD_PRELOAD: counts the products of a program, and prints the number at the end.
#include "blas.h"

#include <cstdio>
#include <dlfcn.h>

namespace {

struct Count {
	~Count() { std::printf("interposer %d\n", calls); }
	int calls = 0;
} count;

} // namespace

extern "C" void cblas_sgemm(Order order, Trans transa, Trans transb, Int m, Int n, Int k, float alpha, const float *A,
                            Int lda, const float *B, Int ldb, float beta, float *C, Int ldc)
{
	static auto *const next = reinterpret_cast<CblasGemm *>(dlsym(RTLD_NEXT, "cblas_sgemm"));
	count.calls++;
	next(order, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}
