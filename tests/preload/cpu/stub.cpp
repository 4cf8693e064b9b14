// A BLAS with every routine and spelling that the front intercepts: the batches and sbgemm, which no library of Debian
// has, the names of the wheels, and those of MKL. Sums are in order, in fp32. The routines that are only counted mark
// their result.
#include "blas.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool isTransposed(char letter)
{
	return letter != 'N' && letter != 'n';
}

char letterOf(Trans value)
{
	return value == noTrans ? 'N' : value == trans ? 'T' : value == conjTrans ? 'C' : '?';
}

} // namespace

// A program can define its own.
extern "C" __attribute__((visibility("default"), weak)) void xerbla_(const char *name, const Int *parameter,
                                                                     std::size_t length)
{
	std::fprintf(stderr, " ** On entry to %.*s parameter number %d had an illegal value\n", static_cast<int>(length),
	             name, static_cast<int>(*parameter));
}

namespace {

void refuse(const char *name, Int parameter)
{
	xerbla_(name, &parameter, std::strlen(name));
}
void multiply(char transa, char transb, Int m, Int n, Int k, float alpha, const float *A, Int lda, const float *B,
              Int ldb, float beta, float *C, Int ldc)
{
	if (!std::strchr("NTC", transa))
		return refuse("SGEMM", 1);
	if (!std::strchr("NTC", transb))
		return refuse("SGEMM", 2);
	const Int rowsA = isTransposed(transa) ? k : m, rowsB = isTransposed(transb) ? n : k;
	if (m < 0 || n < 0 || k < 0)
		return refuse("SGEMM", m < 0 ? 3 : n < 0 ? 4 : 5);
	if (lda < (rowsA > 1 ? rowsA : 1))
		return refuse("SGEMM", 8);
	if (ldb < (rowsB > 1 ? rowsB : 1))
		return refuse("SGEMM", 10);
	if (ldc < (m > 1 ? m : 1))
		return refuse("SGEMM", 13);
	if (m == 0 || n == 0 || ((k == 0 || alpha == 0) && beta == 1))
		return;
	for (Int j = 0; j < n; j++)
		for (Int i = 0; i < m; i++) {
			float sum = 0;
			for (Int l = 0; l < k && alpha != 0; l++) {
				float a, b;
				std::memcpy(&a, A + (isTransposed(transa) ? l + i * lda : i + l * lda), sizeof a);
				std::memcpy(&b, B + (isTransposed(transb) ? j + l * ldb : l + j * ldb), sizeof b);
				sum += a * b;
			}
			float c = 0;
			if (beta != 0)
				std::memcpy(&c, C + i + j * ldc, sizeof c);
			c = alpha * sum + (beta != 0 ? beta * c : 0);
#ifdef NEGATES // so that a test sees which library was called
			c = -c;
#endif
			std::memcpy(C + i + j * ldc, &c, sizeof c);
		}
}

void cblasMultiply(Order order, Trans transa, Trans transb, Int m, Int n, Int k, float alpha, const float *A, Int lda,
                   const float *B, Int ldb, float beta, float *C, Int ldc)
{
	const char a = letterOf(transa), b = letterOf(transb);
	if (order == columnMajor)
		multiply(a, b, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
	else if (order == rowMajor)
		multiply(b, a, n, m, k, alpha, B, ldb, A, lda, beta, C, ldc);
	else
		refuse("cblas_sgemm", 1);
}

void mark(void *C)
{
	*static_cast<char *>(C) ^= 1;
}

} // namespace

// The definitions have hidden names, and each spelling is an alias. The library calls itself through one in batches
// only, as BLIS and MKL do.
#define ALIAS(name, of) extern "C" __attribute__((visibility("default"), alias(#of))) decltype(of) name;
#ifdef WHEEL // the names of the NumPy wheel only
#define CBLAS(of) ALIAS(scipy_cblas_##of##64_, c_##of)
#define FORTRAN(of, capitals) ALIAS(scipy_##of##_64_, f_##of)
#else
#define CBLAS(of)                                                                                                      \
	ALIAS(cblas_##of, c_##of)                                                                                          \
	ALIAS(cblas_##of##64_, c_##of)                                                                                     \
	ALIAS(cblas_##of##_64, c_##of)                                                                                     \
	ALIAS(scipy_cblas_##of, c_##of)                                                                                    \
	ALIAS(scipy_cblas_##of##64_, c_##of)
#define FORTRAN(of, capitals)                                                                                          \
	ALIAS(of##_, f_##of)                                                                                               \
	ALIAS(of##_64_, f_##of)                                                                                            \
	ALIAS(scipy_##of##_, f_##of)                                                                                       \
	ALIAS(scipy_##of##_64_, f_##of)                                                                                    \
	ALIAS(of, f_##of)                                                                                                  \
	ALIAS(of##_64, f_##of)                                                                                             \
	ALIAS(capitals, f_##of)                                                                                            \
	ALIAS(capitals##_64, f_##of)
#endif

#ifdef WHEEL
#define OWN_SGEMM scipy_cblas_sgemm64_
#else
#define OWN_SGEMM cblas_sgemm
#endif

#ifdef CONFIGURED // as OpenBLAS with integers of 64 bits, but without a suffix in any name
extern "C" __attribute__((visibility("default"))) const char *openblas_get_config()
{
	return "OpenBLAS 0.3.21 USE64BITINT DYNAMIC_ARCH";
}
#endif

#ifdef THREADS // as OpenBLAS with its own threads
extern "C" __attribute__((visibility("default"))) int openblas_get_num_threads()
{
	return 2;
}

extern "C" __attribute__((visibility("default"))) int openblas_get_parallel()
{
	return 1;
}
#endif

extern "C" {

void c_sgemm(Order order, Trans transa, Trans transb, Int m, Int n, Int k, float alpha, const float *A, Int lda,
             const float *B, Int ldb, float beta, float *C, Int ldc)
{
	cblasMultiply(order, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}
}

CBLAS(sgemm)

extern "C" {

void f_sgemm(const char *transa, const char *transb, const Int *m, const Int *n, const Int *k, const float *alpha,
             const float *A, const Int *lda, const float *B, const Int *ldb, const float *beta, float *C,
             const Int *ldc)
{
	multiply(*transa & ~0x20, *transb & ~0x20, *m, *n, *k, *alpha, A, *lda, B, *ldb, *beta, C, *ldc);
}

void c_sgemm_batch(Order order, const Trans *transa, const Trans *transb, const Int *m, const Int *n, const Int *k,
                   const float *alpha, const float **A, const Int *lda, const float **B, const Int *ldb,
                   const float *beta, float **C, const Int *ldc, Int groups, const Int *sizes)
{
	for (Int group = 0; group < groups; group++)
		for (Int i = 0; i < sizes[group]; i++)
			OWN_SGEMM(order, transa[group], transb[group], m[group], n[group], k[group], alpha[group], *A++, lda[group],
			          *B++, ldb[group], beta[group], *C++, ldc[group]);
}

void f_sgemm_batch(const char *transa, const char *transb, const Int *m, const Int *n, const Int *k, const float *alpha,
                   const float **A, const Int *lda, const float **B, const Int *ldb, const float *beta, float **C,
                   const Int *ldc, const Int *groups, const Int *sizes)
{
	for (Int group = 0; group < *groups; group++)
		for (Int i = 0; i < sizes[group]; i++)
			multiply(transa[group], transb[group], m[group], n[group], k[group], alpha[group], *A++, lda[group], *B++,
			         ldb[group], beta[group], *C++, ldc[group]);
}

void c_sgemm_batch_strided(Order order, Trans transa, Trans transb, Int m, Int n, Int k, float alpha, const float *A,
                           Int lda, Int strideA, const float *B, Int ldb, Int strideB, float beta, float *C, Int ldc,
                           Int strideC, Int batch)
{
	for (Int i = 0; i < batch; i++)
		OWN_SGEMM(order, transa, transb, m, n, k, alpha, A + i * strideA, lda, B + i * strideB, ldb, beta,
		          C + i * strideC, ldc);
}

void f_sgemm_batch_strided(const char *transa, const char *transb, const Int *m, const Int *n, const Int *k,
                           const float *alpha, const float *A, const Int *lda, const Int *strideA, const float *B,
                           const Int *ldb, const Int *strideB, const float *beta, float *C, const Int *ldc,
                           const Int *strideC, const Int *batch)
{
	for (Int i = 0; i < *batch; i++)
		multiply(*transa, *transb, *m, *n, *k, *alpha, A + i * *strideA, *lda, B + i * *strideB, *ldb, *beta,
		         C + i * *strideC, *ldc);
}

void c_sgemv(Order, Trans, Int, Int, float, const float *, Int, const float *, Int, float, float *y, Int)
{
	mark(y);
}
void c_ssymm(Order, int, int, Int, Int, float, const float *, Int, const float *, Int, float, float *C, Int)
{
	mark(C);
}
void c_ssyrk(Order, int, Trans, Int, Int, float, const float *, Int, float, float *C, Int)
{
	mark(C);
}
void c_strmm(Order, int, int, Trans, int, Int, Int, float, const float *, Int, float *B, Int)
{
	mark(B);
}
void c_strsm(Order, int, int, Trans, int, Int, Int, float, const float *, Int, float *B, Int)
{
	mark(B);
}
void c_sbgemm(Order, Trans, Trans, Int, Int, Int, float, const uint16_t *, Int, const uint16_t *, Int, float, float *C,
              Int)
{
	mark(C);
}
void c_dgemm(Order, Trans, Trans, Int, Int, Int, double, const double *, Int, const double *, Int, double, double *C,
             Int)
{
	mark(C);
}
void c_cgemm(Order, Trans, Trans, Int, Int, Int, const void *, const void *, Int, const void *, Int, const void *,
             void *C, Int)
{
	mark(C);
}
void c_zgemm(Order, Trans, Trans, Int, Int, Int, const void *, const void *, Int, const void *, Int, const void *,
             void *C, Int)
{
	mark(C);
}

void f_sgemv(const char *, const Int *, const Int *, const float *, const float *, const Int *, const float *,
             const Int *, const float *, float *y, const Int *)
{
	mark(y);
}
void f_ssymm(const char *, const char *, const Int *, const Int *, const float *, const float *, const Int *,
             const float *, const Int *, const float *, float *C, const Int *)
{
	mark(C);
}
void f_ssyrk(const char *, const char *, const Int *, const Int *, const float *, const float *, const Int *,
             const float *, float *C, const Int *)
{
	mark(C);
}
void f_strmm(const char *, const char *, const char *, const char *, const Int *, const Int *, const float *,
             const float *, const Int *, float *B, const Int *)
{
	mark(B);
}
void f_strsm(const char *, const char *, const char *, const char *, const Int *, const Int *, const float *,
             const float *, const Int *, float *B, const Int *)
{
	mark(B);
}
void f_dgemm(const char *, const char *, const Int *, const Int *, const Int *, const void *, const void *, const Int *,
             const void *, const Int *, const void *, void *C, const Int *)
{
	mark(C);
}
decltype(f_dgemm) f_sbgemm __attribute__((alias("f_dgemm"))), f_cgemm __attribute__((alias("f_dgemm"))),
    f_zgemm __attribute__((alias("f_dgemm")));

} // extern "C"

FORTRAN(sgemm, SGEMM)
CBLAS(sgemm_batch)
FORTRAN(sgemm_batch, SGEMM_BATCH)
CBLAS(sgemm_batch_strided)
FORTRAN(sgemm_batch_strided, SGEMM_BATCH_STRIDED)
CBLAS(sgemv)
FORTRAN(sgemv, SGEMV)
CBLAS(ssymm)
FORTRAN(ssymm, SSYMM)
CBLAS(ssyrk)
FORTRAN(ssyrk, SSYRK)
CBLAS(strmm)
FORTRAN(strmm, STRMM)
CBLAS(strsm)
FORTRAN(strsm, STRSM)
CBLAS(sbgemm)
FORTRAN(sbgemm, SBGEMM)
CBLAS(dgemm)
FORTRAN(dgemm, DGEMM)
CBLAS(cgemm)
FORTRAN(cgemm, CGEMM)
CBLAS(zgemm)
FORTRAN(zgemm, ZGEMM)
