// One matrix product as the emulated libraries describe it. Values.
#pragma once

#include "tools/emulated/blas/convert.h"

#include <complex>
#include <cublasLt.h>
#include <cublas_v2.h>

namespace emulated::blas {

// A batch of matrices stored by columns, `stride` elements apart.
struct Matrix {
	const void *data = nullptr;
	cudaDataType type = noType;
	int64_t ld = 1;
	int64_t stride = 0;
	bool isArray = false; // `data` is a device array of device pointers, one per matrix, read when the work runs
	bool isConjugated = false;

	// The matrix from another element on; for an array, from another pointer on.
	Matrix moved(int64_t elements) const
	{
		Matrix there = *this;
		there.data = static_cast<const std::byte *>(data) +
		             elements * static_cast<int64_t>(isArray ? sizeof(void *) : sizeOf(type));
		return there;
	}
};

// Bits of cublasLtEpilogue_t: a bias gradient computed from the result, a bit mask or any auxiliary matrix, a bias
// vector read or written.
constexpr unsigned gradientBit = 16, auxBit = 128, maskBits = CUBLASLT_EPILOGUE_RELU | 8;
constexpr unsigned vectorBits =
    CUBLASLT_EPILOGUE_BIAS | gradientBit | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB;

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
	bool deviceScalars = false; // alpha and beta are read when the work runs; false: they are in the values
	const void *alpha = nullptr;
	const void *beta = nullptr;
	std::complex<double> alphaValue = 1;
	std::complex<double> betaValue = 0;
	bool hasAlphaVector = false; // alpha is a device vector with one element per row; alphaStride: distance between
	                             // batches
	bool hasBetaVector = false;
	int64_t alphaStride = 0;

	unsigned epilogue = CUBLASLT_EPILOGUE_DEFAULT;
	const void *bias = nullptr; // the vector that the epilogue adds, or to which it writes a gradient
	cudaDataType biasType = CUDA_R_32F;
	int64_t biasStride = 0;
	const void *aux = nullptr; // one bit per element (ReLU), or a matrix of D's type (GELU)
	int64_t auxLd = 0, auxStride = 0;

	bool isCoarse = false, ignoresDeviceAlpha = false, isSlow = false; // faults

	int split = 1; // number of parts of k with separate sums in the workspace
	void *workspace = nullptr;
	size_t workspaceBytes = 0;

	// The stored extents of A and B.
	int64_t aRows() const { return transposeA ? k : m; }
	int64_t aColumns() const { return transposeA ? m : k; }
	int64_t bRows() const { return transposeB ? n : k; }
	int64_t bColumns() const { return transposeB ? k : n; }
	bool isEmpty() const { return m == 0 || n == 0 || batch == 0; } // nothing to write
};

} // namespace emulated::blas
