// One matrix product of the emulated libraries, and the work that computes it on a stream. Any thread. D =
// epilogue(alpha op(A) op(B) + beta C). Operands are rounded to the requested precision and accumulated in fp32 (fp64,
// or emulated half). alpha * sum + beta * c + bias is computed in the accumulation type without contraction and rounded
// once into D's type. A complex product has complex operands, whose parts are rounded separately.
#pragma once

#include "tools/emulated/blas/description.h"
#include "tools/emulated/device/device.h"

#include <cublasLt.h>
#include <cublas_v2.h>

#include <vector>

namespace emulated::blas {

// sum = op(A) op(B). Operands are packed, column-major, float, double or complex. Only this function and the next two
// call BLAS.
template <typename T>
EMULATED_EXPORT void multiply(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const T *a, const T *b,
                              T *sum);
// b = op(A)^-1 b or b op(A)^-1. A is a packed triangle with its diagonal, b is m x n.
template <typename T>
EMULATED_EXPORT void solve(bool isLeft, bool isUpper, bool isTransposed, int64_t m, int64_t n, const T *a, T *b);
// The BLAS function rotmg.
EMULATED_EXPORT void modifiedRotation(double &d1, double &d2, double &x1, double y1, double *param);

// The rounding that a compute type requires.
EMULATED_EXPORT Rounding roundingOf(cublasComputeType_t compute);
// Workspace of a split product, in bytes.
EMULATED_EXPORT size_t workspaceOf(const Product &product);
// Copies host scalars into the values. Must be called before the entry point returns, because the program may change
// them afterwards.
EMULATED_EXPORT void readScalars(Product &product);
// Enqueues the products on the stream, in order. EXECUTION_FAILED if the stream does not accept them.
EMULATED_EXPORT cublasStatus_t enqueue(cudaStream_t stream, const char *name, std::vector<Product> products);

// The documented tables of supported combinations.
enum class Table { gemmex, sgemmex, grouped, lt };
struct Combination {
	Table table;
	cublasComputeType_t compute;
	cudaDataType scale, a, b, c, d, bias;
};
EMULATED_EXPORT const Combination *find(Table table, cublasComputeType_t compute, cudaDataType scale, cudaDataType a,
                                        cudaDataType b, cudaDataType c, cudaDataType d);

} // namespace emulated::blas
