// What an exported routine was called with, under the names that the headers give its parameters. Any thread.
// The exported functions are generated (blas/generate.py): each fills a Call and gives it to what exports.txt names.
#pragma once

#include "tools/emulated/blas/product.h"
#include "tools/emulated/cublas/handle.h"

#include <algorithm>
#include <optional>

namespace emulated::cublas {

using blas::Matrix;

// A host array of int or int64_t.
struct Integers {
	const void *data = nullptr;
	bool isWide = false;

	Integers() = default;
	Integers(const int *array) : data(array) {}
	Integers(const int64_t *array) : data(array), isWide(true) {}
	int64_t operator[](int64_t i) const
	{
		return isWide ? static_cast<const int64_t *>(data)[i] : static_cast<const int *>(data)[i];
	}
};

struct Call {
	const char *name = nullptr;
	Handle *handle = nullptr;
	cublasOperation_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
	int64_t m = 0, n = 0, k = 0;
	Matrix A, B, C; // their type is Combination::none until an argument tells it
	Matrix alpha, beta;
	int64_t batchCount = 1;
	cublasGemmAlgo_t algo = CUBLAS_GEMM_DEFAULT;    // without effect since sm_80
	std::optional<cublasComputeType_t> computeType; // of the types, unless the function asks for it

	// Grouped products: host arrays, but for what A, B and C point to.
	const cublasOperation_t *transa_array = nullptr, *transb_array = nullptr;
	Integers m_array, n_array, k_array, lda_array, ldb_array, ldc_array, group_size;
	Matrix alpha_array, beta_array;
	int64_t group_count = 0;
};

using Routine = cublasStatus_t(Call &call);
// What every generated function does. NOT_INITIALIZED without a live handle.
cublasStatus_t enter(cublasHandle_t handle, Call &call, Routine &routine);

// What exports.txt names.
Routine gemm, sgemmEx, gemmGrouped;

inline bool isOperation(cublasOperation_t operation)
{
	return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

inline bool isLd(int64_t ld, int64_t rows)
{
	return ld >= std::max<int64_t>(1, rows);
}

} // namespace emulated::cublas
