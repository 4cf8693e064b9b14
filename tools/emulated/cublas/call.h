// The arguments of an exported routine, under the parameter names of the headers, and its submission to the stream. Any
// thread. The exported functions are generated (blas/generate.py): each fills a Call for its routine.
#pragma once

#include "tools/emulated/blas/product.h"
#include "tools/emulated/cublas/handle.h"

#include <cublasXt.h>

#include <algorithm>
#include <optional>

namespace emulated::cublas {

using blas::Matrix;

struct Call {
	const char *name = nullptr;
	Handle *handle = nullptr;
	cublasOperation_t trans = CUBLAS_OP_N, transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
	cublasSideMode_t side = CUBLAS_SIDE_LEFT, mode = CUBLAS_SIDE_LEFT;
	cublasFillMode_t uplo = CUBLAS_FILL_MODE_LOWER;
	cublasDiagType_t diag = CUBLAS_DIAG_NON_UNIT;
	int64_t m = 0, n = 0, k = 0, kl = 0, ku = 0, batchCount = 1;
	// A scalar is also a Matrix; a vector has its increment in ld. The type is noType unless an argument sets it.
	Matrix A, AP, B, C, x, y, alpha, beta, result, a, b, c, s, d1, d2, x1, y1, param;
	cublasGemmAlgo_t algo = CUBLAS_GEMM_DEFAULT; // without effect since sm_80
	std::optional<cublasComputeType_t> computeType;
	std::optional<cudaDataType> executionType;

	// Grouped products: host arrays; the pointers in A, B and C are device pointers.
	const cublasOperation_t *transa_array = nullptr, *transb_array = nullptr;
	Matrix m_array, n_array, k_array, lda_array, ldb_array, ldc_array, group_size, alpha_array, beta_array;
	int64_t group_count = 0;
};

inline bool isGiven(const Matrix &matrix)
{
	return matrix.type != blas::noType;
}

inline bool isOperation(cublasOperation_t operation)
{
	return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

inline bool isLd(int64_t ld, int64_t rows)
{
	return ld >= std::max<int64_t>(1, rows);
}

template <typename T>
T conjugate(T value)
{
	return blas::as<T>(std::conj(value));
}

// Calls function() with a value of the type in which levels 1 and 2 compute these elements.
template <typename Function>
void inWide(cudaDataType type, Function function)
{
	if (type == CUDA_C_32F || type == CUDA_C_64F)
		function(std::complex<double>{});
	else
		function(double{});
}

// Device memory during one piece of work. Inaccessible memory reads as zeros, is not written, and sets the error of the
// work. For cublasXt, host memory is accessible too.
class Memory
{
public:
	explicit Memory(bool hasHost = false) : hasHost_(hasHost) {}
	cudaError_t error() const { return error_; }
	// The elements from `first` on; null if they are inaccessible.
	std::byte *at(const Matrix &where, int64_t first, int64_t count);
	// One matrix of a batch.
	Matrix element(const Matrix &batch, int64_t index);

	// Loads `count` elements, `step` apart; T is one of the four types.
	template <typename T>
	void load(const Matrix &from, int64_t first, int64_t step, int64_t count, T *to);
	template <typename T>
	void store(const T *from, const Matrix &to, int64_t first, int64_t step, int64_t count);
	// Vectors: a negative increment starts at the end.
	template <typename T>
	std::vector<T> vector(const Matrix &x, int64_t count)
	{
		std::vector<T> values(count);
		load(x, x.ld < 0 ? (1 - count) * x.ld : 0, x.ld, count, values.data());
		return values;
	}
	template <typename T>
	void store(const std::vector<T> &values, const Matrix &x)
	{
		const auto count = static_cast<int64_t>(values.size());
		store(values.data(), x, x.ld < 0 ? (1 - count) * x.ld : 0, x.ld, count);
	}

private:
	bool hasHost_;
	cudaError_t error_ = cudaSuccess;
};

// A scalar, read at once or when the work runs, depending on the handle's pointer mode.
class Scalar
{
public:
	Scalar(const Call &call, const Matrix &at, double otherwise, int64_t index = 0);
	std::complex<double> read(Memory &memory) const;

private:
	Matrix at_;
	int64_t index_;
	bool isOnDevice_;
	std::complex<double> value_;
};

using Work = std::function<void(Memory &)>;
// Enqueues work on the handle's stream. Work of cublasXt is complete when the call returns.
cublasStatus_t run(const Call &call, Work work);
// The same for work with a result. A result for the host is complete when the call returns, so the call fails during
// capture.
cublasStatus_t runForResult(const Call &call, Work work);

using Routine = cublasStatus_t(Call &call);
#define ROUTINE(name, work, ...)                                                                                       \
	cublasStatus_t name(Call &call)                                                                                    \
	{                                                                                                                  \
		return work(call, __VA_ARGS__);                                                                                \
	}
// The body of every generated function. NOT_INITIALIZED without a live handle.
cublasStatus_t enter(cublasHandle_t handle, Call &call, Routine &routine);
cublasStatus_t enter(cublasXtHandle_t handle, Call &call, Routine &routine);

// The routines that exports.txt names.
Routine gemm, sgemmEx, gemmGrouped;
Routine axpy, scal, copy, swap, dot, dotc, nrm2, asum, iamax, iamin, rot, rotm, rotg, rotmg;
Routine gemv, gbmv, symv, hemv, sbmv, hbmv, spmv, hpmv, trmv, tbmv, tpmv, trsv, tbsv, tpsv;
Routine ger, gerc, syr, her, spr, hpr, syr2, her2, spr2, hpr2;
Routine symm, hemm, syrk, herk, syr2k, her2k, trmm, trsm, geam, dgmm, tpttr, trttp, gemmXt;

} // namespace emulated::cublas
