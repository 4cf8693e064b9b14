// A plug-in that needs its own BLAS: run() and again() call it from different places. -DEARLY: the product of
// run() is computed inside dlopen, with -DJOINS by a thread for which dlopen waits. -DLATE: a destructor that runs
// after those of the compiler calls run().
#include "blas.h"
#include "check.h"

#ifdef JOINS
#include <thread>
#endif

extern "C" {

CblasGemm cblas_sgemm;
Gemm sgemm_;

#ifdef EARLY
static char early;
__attribute__((constructor)) static void begin()
{
	const auto compute = [] { early = check(reinterpret_cast<void *>(cblas_sgemm), reinterpret_cast<void *>(sgemm_)); };
#ifdef JOINS
	std::thread(compute).join();
#else
	compute();
#endif
}
#endif

char run()
{
#ifdef EARLY
	return early;
#else
	return check(reinterpret_cast<void *>(cblas_sgemm), reinterpret_cast<void *>(sgemm_));
#endif
}

#ifdef LATE
__attribute__((destructor(101))) static void finish()
{
	run();
}
#endif

// Functions that end in the call: the compiler makes it a jump, so that the return address is in the caller of the
// plug-in.
void multiply(Order order, Trans transA, Trans transB, Int m, Int n, Int k, float alpha, const float *A, Int lda,
              const float *B, Int ldb, float beta, float *C, Int ldc)
{
	cblas_sgemm(order, transA, transB, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

void multiply_(const char *transA, const char *transB, const Int *m, const Int *n, const Int *k, const float *alpha,
               const float *A, const Int *lda, const float *B, const Int *ldb, const float *beta, float *C,
               const Int *ldc, std::size_t lengthA, std::size_t lengthB)
{
	sgemm_(transA, transB, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, lengthA, lengthB);
}

// One product of a single element, called through the linkage table: 6 if it is right.
int again()
{
	const float two = 2, three = 3;
	float six = 0;
	cblas_sgemm(columnMajor, noTrans, noTrans, 1, 1, 1, 1, &two, 1, &three, 1, 0, &six, 1);
	return static_cast<int>(six);
}

} // extern "C"
