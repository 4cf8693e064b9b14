// One matrix product as the emulated libraries describe it, and the work that computes it on a stream. Any thread.
// D = epilogue(alpha op(A) op(B) + beta C): operands rounded as asked, fp32 (fp64, or emulated half) accumulation,
// alpha * sum + beta * c + bias in the accumulation type without contraction, one rounding into D's type.
#pragma once

#include "tools/emulated/blas/convert.h"
#include "tools/emulated/device/device.h"

#include <cublasLt.h>
#include <cublas_v2.h>

namespace emulated::blas {

// As stored, column by column; `stride` elements lie between the matrices of a batch.
struct Matrix {
	const void *data = nullptr;
	cudaDataType type = CUDA_R_32F;
	int64_t ld = 0;
	int64_t stride = 0;
	bool isArray = false; // `data` are device pointers in device memory, one a matrix: read when the work runs
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
	double alphaValue = 1;
	double betaValue = 0;
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
};

// sum = op(A) op(B) in fp32, packed column-major operands: the one place where OpenBLAS computes.
EMULATED_EXPORT void multiply(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const float *a,
                              const float *b, float *sum);

// The arithmetic that a compute type asks for.
EMULATED_EXPORT Rounding roundingOf(cublasComputeType_t compute);
// Bytes of workspace that a split product needs.
EMULATED_EXPORT size_t workspaceOf(const Product &product);
// Host scalars into the values; to be called by the entry point, because they may change as soon as it returns.
EMULATED_EXPORT void readScalars(Product &product);
// Puts the product on the stream. EXECUTION_FAILED when the stream does not take it.
EMULATED_EXPORT cublasStatus_t enqueue(cudaStream_t stream, const char *name, const Product &product);

// What the device sees of memory that a kernel touches when it runs. Every access must be aligned to its element; the
// hardware raises an error of its own otherwise. `offset`: in elements.
cudaError_t look(const void *&where, const void *address, size_t alignment, size_t bytes);
cudaError_t look(const void *&where, const void *base, cudaDataType type, int64_t offset, int64_t rows, int64_t columns,
                 int64_t ld);

// Which products the documented tables hold.
enum class Table { gemmex, sgemmex, lt };
struct Combination {
	static constexpr auto none = static_cast<cudaDataType>(-1);
	Table table;
	cublasComputeType_t compute;
	cudaDataType scale, a, b, c, d, bias;
};
EMULATED_EXPORT const Combination *find(Table table, cublasComputeType_t compute, cudaDataType scale, cudaDataType a,
                                        cudaDataType b, cudaDataType c, cudaDataType d);

} // namespace emulated::blas
