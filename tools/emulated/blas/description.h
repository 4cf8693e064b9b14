// One matrix product as the emulated libraries describe it. Values.
#pragma once

#include "tools/emulated/blas/convert.h"

#include <complex>
#include <cublasLt.h>
#include <cublas_v2.h>

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

// The bits that cublasLtEpilogue_t is made of: a bias gradient out of the result, a bit mask or any auxiliary matrix, a
// bias vector in or out.
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
	bool deviceScalars = false; // alpha and beta are read when the work runs, else they were read into the values
	const void *alpha = nullptr;
	const void *beta = nullptr;
	std::complex<double> alphaValue = 1;
	std::complex<double> betaValue = 0;
	bool hasAlphaVector = false; // alpha is a device vector, an element for each row; alphaStride: from batch to batch
	bool hasBetaVector = false;
	int64_t alphaStride = 0;

	unsigned epilogue = CUBLASLT_EPILOGUE_DEFAULT;
	const void *bias = nullptr; // the vector that the epilogue adds, or writes a gradient to
	cudaDataType biasType = CUDA_R_32F;
	int64_t biasStride = 0;
	const void *aux = nullptr; // a bit for each element (ReLU), or a matrix of D's type (GELU)
	int64_t auxLd = 0, auxStride = 0;

	int split = 1; // parts of k summed one by one, kept in the workspace
	void *workspace = nullptr;
	size_t workspaceBytes = 0;

	bool isEmpty() const { return m == 0 || n == 0 || batch == 0; } // nothing to write
};

} // namespace emulated::blas
