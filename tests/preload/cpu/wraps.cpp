// A library with the C interface of a BLAS, which calls the Fortran interface of another library.
#include "blas.h"
#include "check.h"

extern "C" Gemm sgemm_;

// The only place that calls the other library.
[[gnu::noinline]] static void multiply(Order order, Trans transA, Trans transB, Int m, Int n, Int k, float alpha,
                                       const float *A, Int lda, const float *B, Int ldb, float beta, float *C, Int ldc)
{
	const bool isSwapped = order == rowMajor;
	const char a = transA == noTrans ? 'N' : 'T', b = transB == noTrans ? 'N' : 'T';
	if (isSwapped)
		sgemm_(&b, &a, &n, &m, &k, &alpha, B, &ldb, A, &lda, &beta, C, &ldc, 1, 1);
	else
		sgemm_(&a, &b, &m, &n, &k, &alpha, A, &lda, B, &ldb, &beta, C, &ldc, 1, 1);
}

extern "C" {

void cblas_sgemm(Order order, Trans transA, Trans transB, Int m, Int n, Int k, float alpha, const float *A, Int lda,
                 const float *B, Int ldb, float beta, float *C, Int ldc)
{
	multiply(order, transA, transB, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

// Without the interface.
char run()
{
	return check(reinterpret_cast<void *>(multiply), reinterpret_cast<void *>(sgemm_));
}

} // extern "C"
