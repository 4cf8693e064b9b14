// One matrix product as the emulated libraries describe it, and the work that computes it on a stream. Any thread.
// D = epilogue(alpha op(A) op(B) + beta C): operands rounded as asked, fp32 (fp64, or emulated half) accumulation,
// alpha * sum + beta * c + bias in the accumulation type without contraction, one rounding into D's type. A complex
// product has complex operands, rounded part by part.
#pragma once

#include "tools/emulated/blas/convert.h"
#include "tools/emulated/device/device.h"

#include <cublas_v2.h>

#include <vector>

namespace emulated::blas {

// As stored, column by column; `stride` elements lie between the matrices of a batch.
struct Matrix {
	const void *data = nullptr;
	cudaDataType type = noType;
	int64_t ld = 1;
	int64_t stride = 0;
	bool isArray = false; // `data` are device pointers in device memory, one a matrix: read when the work runs
	bool isConjugated = false;

	// The same from another element on, of an array from another pointer on.
	Matrix moved(int64_t elements) const
	{
		Matrix there = *this;
		there.data = static_cast<const std::byte *>(data) +
		             elements * static_cast<int64_t>(isArray ? sizeof(void *) : sizeOf(type));
		return there;
	}
};

struct Product {
	bool transposeA = false;
	bool transposeB = false;
	int64_t m = 0;
	int64_t n = 0;
	int64_t k = 0;
	Matrix a, b, c, d; // c.data null: beta must be 0 when the work runs
	int64_t batch = 1;
	cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
	Rounding rounding = Rounding::None;

	cudaDataType scaleType = CUDA_R_32F;
	bool deviceScalars = false; // alpha and beta are read when the work runs, else they were read into the values
	const void *alpha = nullptr;
	const void *beta = nullptr;
	std::complex<double> alphaValue = 1;
	std::complex<double> betaValue = 0;

	const void *bias = nullptr; // m elements, or none
	cudaDataType biasType = CUDA_R_32F;
	int64_t biasStride = 0;
	bool relu = false;

	int split = 1; // parts of k summed one by one, kept in the workspace
	void *workspace = nullptr;
	size_t workspaceBytes = 0;

	bool isEmpty() const { return m == 0 || n == 0 || batch == 0; } // nothing to write
};

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
