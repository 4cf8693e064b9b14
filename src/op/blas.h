// Calls of a CPU BLAS: the arguments of each routine in both interfaces, and their Op. Any thread; reads arguments, and
// host arrays of a batch.
#pragma once

#include "src/op/entry.h"
#include "src/op/op.h"

#include <cstring>

namespace autoamp::op {

// The arguments of a routine that a description contains. Sizes are those of the program, whatever the order of its
// matrices; A, B and C are null for routines other than sgemm and its batches.
struct BlasCall {
	uint16_t slot = 0;               // slot of the front; set by the wrapper
	bool isWide = false;             // the integers have 64 bits; set by the wrapper
	unsigned closes = 0;             // of autoamp_cpu_original(); set by the wrapper
	char transa = 'N', transb = 'N'; // N, T, C; 0: invalid
	bool isRowMajor = false, isInvalid = false;
	bool isMixed = false; // a batch of products that differ in more than addresses
	uint64_t written = 0; // both transposes as the program wrote them
	uint32_t order = 0;   // the same; 0: Fortran
	int64_t m = 0, n = 0, k = 0;
	int64_t batch = 1;
	float alpha = 1, beta = 0;
	const float *A = nullptr, *B = nullptr;
	float *C = nullptr;
	const float *const *As = nullptr, *const *Bs = nullptr; // matrices of a batch by pointers
	float *const *Cs = nullptr;
	int64_t lda = 0, ldb = 0, ldc = 0;
	int64_t strideA = 0, strideB = 0, strideC = 0;
};

Op describe(const Entry &entry, uint16_t index, const BlasCall &call);

// The routines. Each function has the parameters of the routine, after isWide: the integers have 64 bits. An integer
// parameter of the C interface is declared as the whole register or stack slot, so that it is forwarded unchanged,
// whatever its width is; the upper half of a 32-bit integer is undefined. MKL's header is the source of the batches.
namespace blas {

using Integer = int64_t;

inline int64_t value(Integer argument, bool isWide)
{
	return isWide ? argument : static_cast<int32_t>(argument);
}

inline int64_t value(const void *argument, bool isWide, int64_t index = 0)
{
	int64_t wide = 0;
	int32_t narrow = 0;
	if (isWide)
		std::memcpy(&wide, static_cast<const char *>(argument) + 8 * index, 8);
	else
		std::memcpy(&narrow, static_cast<const char *>(argument) + 4 * index, 4);
	return isWide ? wide : narrow;
}

inline char transpose(Integer argument) // CBLAS_TRANSPOSE
{
	const auto number = static_cast<int32_t>(argument);
	return number == 111 ? 'N' : number == 112 ? 'T' : number == 113 ? 'C' : '\0';
}

inline uint64_t written(Integer argument)
{
	return static_cast<uint32_t>(argument);
}

inline uint64_t written(const char *argument)
{
	return static_cast<uint8_t>(*argument);
}

inline char transpose(const char *argument)
{
	const char letter = static_cast<char>(*argument & ~0x20); // a capital
	return letter == 'N' || letter == 'T' || letter == 'C' ? letter : '\0';
}

inline void setOrder(BlasCall &call, Integer order) // CBLAS_LAYOUT
{
	const auto number = static_cast<int32_t>(order);
	call.isRowMajor = number == 101;
	call.isInvalid = number != 101 && number != 102;
	call.order = static_cast<uint32_t>(order);
}

template <typename Trans>
[[gnu::always_inline]] inline void setTransposes(BlasCall &call, Trans transa, Trans transb)
{
	call.transa = transpose(transa), call.transb = transpose(transb);
	call.written = written(transa) << 32 | written(transb);
}

// A product of a type that is only counted.
template <typename Trans, typename Size>
[[gnu::always_inline]] inline BlasCall counted(bool isWide, Trans transa, Trans transb, Size m, Size n, Size k)
{
	BlasCall call;
	setTransposes(call, transa, transb);
	call.m = value(m, isWide), call.n = value(n, isWide), call.k = value(k, isWide);
	return call;
}

template <typename Trans, typename Size>
[[gnu::always_inline]] inline BlasCall product(bool isWide, Trans transa, Trans transb, Size m, Size n, Size k,
                                               float alpha, const float *A, Size lda, const float *B, Size ldb,
                                               float beta, float *C, Size ldc)
{
	BlasCall call = counted(isWide, transa, transb, m, n, k);
	call.alpha = alpha, call.beta = beta;
	call.A = A, call.B = B, call.C = C;
	call.lda = value(lda, isWide), call.ldb = value(ldb, isWide), call.ldc = value(ldc, isWide);
	return call;
}

// The arrays of a batch: one element for each group of equal products; matrices and results one for each product.
struct Groups {
	int64_t count;
	const void *sizes, *m, *n, *k, *lda, *ldb, *ldc; // arrays of integers
	const float *alpha, *beta;
	const float *const *A, *const *B;
	float *const *C;
	bool isWide;
};
// Sets the products, except for transposes, from the groups if all are equal.
void setGroups(BlasCall &call, const Groups &groups);

namespace cblas {

[[gnu::always_inline]] inline BlasCall sgemm(bool isWide, Integer order, Integer transa, Integer transb, Integer m,
                                             Integer n, Integer k, float alpha, const float *A, Integer lda,
                                             const float *B, Integer ldb, float beta, float *C, Integer ldc)
{
	BlasCall call = product(isWide, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
	setOrder(call, order);
	return call;
}

inline BlasCall sgemm_batch_strided(bool isWide, Integer order, Integer transa, Integer transb, Integer m, Integer n,
                                    Integer k, float alpha, const float *A, Integer lda, Integer strideA,
                                    const float *B, Integer ldb, Integer strideB, float beta, float *C, Integer ldc,
                                    Integer strideC, Integer batch)
{
	BlasCall call = sgemm(isWide, order, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
	call.strideA = value(strideA, isWide), call.strideB = value(strideB, isWide);
	call.strideC = value(strideC, isWide), call.batch = value(batch, isWide);
	return call;
}

inline BlasCall sgemm_batch(bool isWide, Integer order, const int32_t *transa, const int32_t *transb, const void *m,
                            const void *n, const void *k, const float *alpha, const float *const *A, const void *lda,
                            const float *const *B, const void *ldb, const float *beta, float *const *C, const void *ldc,
                            Integer count, const void *sizes)
{
	BlasCall call;
	setOrder(call, order);
	const int64_t groups = value(count, isWide);
	for (int64_t i = 0; i < groups; ++i)
		call.isMixed |= transa[i] != transa[0] || transb[i] != transb[0];
	if (groups > 0)
		setTransposes(call, Integer{transa[0]}, Integer{transb[0]});
	setGroups(call, {groups, sizes, m, n, k, lda, ldb, ldc, alpha, beta, A, B, C, isWide});
	return call;
}

inline BlasCall sgemv(bool isWide, Integer order, Integer trans, Integer m, Integer n, float, const void *, Integer,
                      const void *, Integer, float, void *, Integer)
{
	BlasCall call = counted(isWide, trans, Integer{111}, m, n, Integer{1});
	setOrder(call, order);
	return call;
}

inline BlasCall ssymm(bool isWide, Integer, Integer, Integer, Integer m, Integer n, float, const void *, Integer,
                      const void *, Integer, float, void *, Integer)
{
	return counted(isWide, Integer{111}, Integer{111}, m, n, Integer{0});
}

inline BlasCall ssyrk(bool isWide, Integer, Integer, Integer trans, Integer n, Integer k, float, const void *, Integer,
                      float, void *, Integer)
{
	return counted(isWide, trans, Integer{111}, n, n, k);
}

inline BlasCall strmm(bool isWide, Integer, Integer, Integer, Integer transa, Integer, Integer m, Integer n, float,
                      const void *, Integer, void *, Integer)
{
	return counted(isWide, transa, Integer{111}, m, n, Integer{0});
}

inline constexpr auto &strsm = strmm;

inline BlasCall sbgemm(bool isWide, Integer, Integer transa, Integer transb, Integer m, Integer n, Integer k, float,
                       const void *, Integer, const void *, Integer, float, void *, Integer)
{
	return counted(isWide, transa, transb, m, n, k);
}

inline BlasCall dgemm(bool isWide, Integer, Integer transa, Integer transb, Integer m, Integer n, Integer k, double,
                      const void *, Integer, const void *, Integer, double, void *, Integer)
{
	return counted(isWide, transa, transb, m, n, k);
}

inline BlasCall cgemm(bool isWide, Integer, Integer transa, Integer transb, Integer m, Integer n, Integer k,
                      const void *, const void *, Integer, const void *, Integer, const void *, void *, Integer)
{
	return counted(isWide, transa, transb, m, n, k);
}

inline constexpr auto &zgemm = cgemm;

} // namespace cblas

// A Fortran compiler appends the length of each text argument. Callers written in C may not pass them: the forwarded
// values are undefined then, and the routines do not use them.
namespace fortran {

using Length = size_t;

[[gnu::always_inline]] inline BlasCall sgemm(bool isWide, const char *transa, const char *transb, const void *m,
                                             const void *n, const void *k, const float *alpha, const float *A,
                                             const void *lda, const float *B, const void *ldb, const float *beta,
                                             float *C, const void *ldc, Length, Length)
{
	return product(isWide, transa, transb, m, n, k, *alpha, A, lda, B, ldb, *beta, C, ldc);
}

inline BlasCall sgemm_batch_strided(bool isWide, const char *transa, const char *transb, const void *m, const void *n,
                                    const void *k, const float *alpha, const float *A, const void *lda,
                                    const void *strideA, const float *B, const void *ldb, const void *strideB,
                                    const float *beta, float *C, const void *ldc, const void *strideC,
                                    const void *batch, Length, Length)
{
	BlasCall call = product(isWide, transa, transb, m, n, k, *alpha, A, lda, B, ldb, *beta, C, ldc);
	call.strideA = value(strideA, isWide), call.strideB = value(strideB, isWide);
	call.strideC = value(strideC, isWide), call.batch = value(batch, isWide);
	return call;
}

inline BlasCall sgemm_batch(bool isWide, const char *transa, const char *transb, const void *m, const void *n,
                            const void *k, const float *alpha, const float *const *A, const void *lda,
                            const float *const *B, const void *ldb, const float *beta, float *const *C, const void *ldc,
                            const void *count, const void *sizes, Length, Length)
{
	BlasCall call;
	const int64_t groups = value(count, isWide);
	for (int64_t i = 0; i < groups; ++i)
		call.isMixed |= transpose(transa + i) != transpose(transa) || transpose(transb + i) != transpose(transb);
	if (groups > 0)
		setTransposes(call, transa, transb);
	setGroups(call, {groups, sizes, m, n, k, lda, ldb, ldc, alpha, beta, A, B, C, isWide});
	return call;
}

inline BlasCall sgemv(bool isWide, const char *trans, const void *m, const void *n, const void *, const void *,
                      const void *, const void *, const void *, const void *, void *, const void *, Length)
{
	BlasCall call;
	setTransposes(call, trans, "N");
	call.m = value(m, isWide), call.n = value(n, isWide), call.k = 1;
	return call;
}

inline BlasCall ssymm(bool isWide, const char *, const char *, const void *m, const void *n, const void *, const void *,
                      const void *, const void *, const void *, const void *, void *, const void *, Length, Length)
{
	BlasCall call;
	call.m = value(m, isWide), call.n = value(n, isWide);
	return call;
}

inline BlasCall ssyrk(bool isWide, const char *, const char *trans, const void *n, const void *k, const void *,
                      const void *, const void *, const void *, void *, const void *, Length, Length)
{
	return counted(isWide, trans, "N", n, n, k);
}

inline BlasCall strmm(bool isWide, const char *, const char *, const char *transa, const char *, const void *m,
                      const void *n, const void *, const void *, const void *, void *, const void *, Length, Length,
                      Length, Length)
{
	BlasCall call;
	setTransposes(call, transa, "N");
	call.m = value(m, isWide), call.n = value(n, isWide);
	return call;
}

inline constexpr auto &strsm = strmm;

inline BlasCall dgemm(bool isWide, const char *transa, const char *transb, const void *m, const void *n, const void *k,
                      const void *, const void *, const void *, const void *, const void *, const void *, void *,
                      const void *, Length, Length)
{
	return counted(isWide, transa, transb, m, n, k);
}

inline constexpr auto &sbgemm = dgemm, &cgemm = dgemm, &zgemm = dgemm;

} // namespace fortran

} // namespace blas

} // namespace autoamp::op
