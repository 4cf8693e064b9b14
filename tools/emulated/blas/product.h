// One matrix product as the emulated libraries describe it, and the work that computes it on a stream. Any thread.
// D = epilogue(alpha op(A) op(B) + beta C): operands rounded as asked, fp32 (fp64, or emulated half) accumulation,
// alpha * sum + beta * c + bias in the accumulation type without contraction, one rounding into D's type. A complex
// product has complex operands, rounded part by part.
#pragma once

#include "tools/emulated/blas/description.h"
#include "tools/emulated/device/device.h"

#include <cublasLt.h>
#include <cublas_v2.h>

#include <vector>

namespace emulated::blas {

// sum = op(A) op(B), packed column-major operands of float, double and the complex numbers of both: the place where
// OpenBLAS computes, with the two below.
template <typename T>
EMULATED_EXPORT void multiply(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const T *a, const T *b,
                              T *sum);
// b = op(A)^-1 b, or b op(A)^-1: A is a packed triangle with its diagonal, b m x n.
template <typename T>
EMULATED_EXPORT void solve(bool isLeft, bool isUpper, bool isTransposed, int64_t m, int64_t n, const T *a, T *b);
// rotmg of BLAS.
EMULATED_EXPORT void modifiedRotation(double &d1, double &d2, double &x1, double y1, double *param);

// The arithmetic that a compute type asks for.
EMULATED_EXPORT Rounding roundingOf(cublasComputeType_t compute);
// Bytes of workspace that a split product needs.
EMULATED_EXPORT size_t workspaceOf(const Product &product);
// Host scalars into the values; to be called by the entry point, because they may change as soon as it returns.
EMULATED_EXPORT void readScalars(Product &product);
// Puts the products on the stream, one after the other. EXECUTION_FAILED when the stream does not take them.
EMULATED_EXPORT cublasStatus_t enqueue(cudaStream_t stream, const char *name, std::vector<Product> products);

// Which products the documented tables hold.
enum class Table { gemmex, sgemmex, grouped, lt };
struct Combination {
	Table table;
	cublasComputeType_t compute;
	cudaDataType scale, a, b, c, d, bias;
};
EMULATED_EXPORT const Combination *find(Table table, cublasComputeType_t compute, cudaDataType scale, cudaDataType a,
                                        cudaDataType b, cudaDataType c, cudaDataType d);

} // namespace emulated::blas
