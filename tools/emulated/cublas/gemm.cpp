// Every GEMM door: argument checks in the documented order, then one Product on the handle's stream.
#include "tools/emulated/blas/product.h"
#include "tools/emulated/cublas/handle.h"

#include <cublasLt.h>

#include <algorithm>

using namespace emulated::blas;
using emulated::cublas::Handle;
using emulated::cublas::handleOf;

namespace {

// The arguments all GEMM functions share, in their own order.
struct Call {
	const char *name;
	cublasHandle_t handle;
	cublasOperation_t transa, transb;
	int64_t m, n, k;
	const void *alpha;
	Matrix a, b;
	const void *beta;
	Matrix c;
	int64_t batch = 1;
};

bool isOperation(cublasOperation_t operation)
{
	return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

// fp32 operands follow the math mode where the call itself leaves the choice (compute type 32F). The modes share their
// low bits: they are compared, never tested bit by bit.
Rounding roundingOf(const Handle &handle, cublasComputeType_t compute, cudaDataType operand)
{
	if (operand != CUDA_R_32F)
		return Rounding::None;
	if (compute == CUBLAS_COMPUTE_32F && (handle.mathMode & 0xf) == CUBLAS_TF32_TENSOR_OP_MATH)
		compute = CUBLAS_COMPUTE_32F_FAST_TF32;
	if (compute == CUBLAS_COMPUTE_32F && (handle.mathMode & 0xf) == CUBLAS_TENSOR_OP_MATH)
		compute = CUBLAS_COMPUTE_32F_FAST_16F;
	return emulated::blas::roundingOf(compute);
}

// 16-bit products run through the public cublasLtMatmul, on the application's own handle: the real libcublas calls it
// through its dynamic table as well, so whoever intercepts it sees calls that no application made.
cublasStatus_t runThroughLt(const Call &call, const Handle &handle, const Product &product)
{
	constexpr int plainAlgorithm = 1; // any alignment, no workspace: the same bits whatever the handle's workspace is
	cublasLtMatmulAlgo_t algorithm;
	if (cublasStatus_t status =
	        cublasLtMatmulAlgoInit(reinterpret_cast<cublasLtHandle_t>(call.handle), product.compute, product.scaleType,
	                               call.a.type, call.b.type, call.c.type, call.c.type, plainAlgorithm, &algorithm))
		return status;
	cublasLtMatmulDescOpaque_t desc;
	int failed = cublasLtMatmulDescInit(&desc, product.compute, product.scaleType);
	auto set = [&](cublasLtMatmulDescAttributes_t id, const auto &value) {
		failed |= cublasLtMatmulDescSetAttribute(&desc, id, &value, sizeof value);
	};
	set(CUBLASLT_MATMUL_DESC_POINTER_MODE,
	    product.deviceScalars ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST);
	set(CUBLASLT_MATMUL_DESC_TRANSA, call.transa);
	set(CUBLASLT_MATMUL_DESC_TRANSB, call.transb);
	auto init = [&](cublasLtMatrixLayoutOpaque_t &layout, const Matrix &matrix, int64_t rows, int64_t columns) {
		const int batch = static_cast<int>(call.batch);
		failed |= cublasLtMatrixLayoutInit(&layout, matrix.type, rows, columns, matrix.ld);
		failed |= cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
		failed |= cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.stride,
		                                           sizeof matrix.stride);
	};
	cublasLtMatrixLayoutOpaque_t a, b, c;
	init(a, call.a, product.transposeA ? call.k : call.m, product.transposeA ? call.m : call.k);
	init(b, call.b, product.transposeB ? call.n : call.k, product.transposeB ? call.k : call.n);
	init(c, call.c, call.m, call.n);
	if (failed)
		return CUBLAS_STATUS_INTERNAL_ERROR;
	return cublasLtMatmul(reinterpret_cast<cublasLtHandle_t>(call.handle), &desc, call.alpha, call.a.data, &a,
	                      call.b.data, &b, call.beta, call.c.data, &c, const_cast<void *>(call.c.data), &c, &algorithm,
	                      handle.workspace, handle.workspaceBytes, handle.stream);
}

cublasStatus_t run(const Call &call, Table table, cublasComputeType_t compute, cudaDataType scale)
{
	if (emulated::mustFail(call.name))
		return CUBLAS_STATUS_EXECUTION_FAILED;
	Handle *handle = handleOf(call.handle);
	if (!handle)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (!isOperation(call.transa) || !isOperation(call.transb) || call.m < 0 || call.n < 0 || call.k < 0)
		return CUBLAS_STATUS_INVALID_VALUE;
	auto atLeast = [](int64_t ld, int64_t rows) { return ld >= std::max<int64_t>(1, rows); };
	if (!atLeast(call.a.ld, call.transa == CUBLAS_OP_N ? call.m : call.k) ||
	    !atLeast(call.b.ld, call.transb == CUBLAS_OP_N ? call.k : call.n) || !atLeast(call.c.ld, call.m))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (call.batch < 0)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!find(table, compute, scale, call.a.type, call.b.type, call.c.type, call.c.type))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (call.m == 0 || call.n == 0 || call.batch == 0)
		return CUBLAS_STATUS_SUCCESS;
	if (!call.alpha || !call.beta)
		return CUBLAS_STATUS_INVALID_VALUE;

	Product product;
	product.transposeA = call.transa != CUBLAS_OP_N;
	product.transposeB = call.transb != CUBLAS_OP_N;
	product.m = call.m;
	product.n = call.n;
	product.k = call.k;
	product.a = call.a;
	product.b = call.b;
	product.c = product.d = call.c;
	product.batch = call.batch;
	product.compute = compute;
	product.rounding = roundingOf(*handle, compute, call.a.type);
	product.scaleType = scale;
	product.deviceScalars = handle->hasDeviceScalars();
	product.alpha = call.alpha;
	product.beta = call.beta;
	product.workspace = handle->workspace;
	product.workspaceBytes = handle->workspaceBytes;
	readScalars(product);
	if (!call.c.data && !product.deviceScalars && product.betaValue != 0)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (cublasStatus_t status = ready(*handle, handle->stream))
		return status;
	if (call.a.type != scale && call.a.data && call.b.data && call.c.data)
		return runThroughLt(call, *handle, product);
	return enqueue(handle->stream, call.name, product);
}

cudaDataType scaleOf(cublasComputeType_t compute)
{
	switch (compute) {
	case CUBLAS_COMPUTE_16F:
	case CUBLAS_COMPUTE_16F_PEDANTIC:
		return CUDA_R_16F;
	case CUBLAS_COMPUTE_64F:
	case CUBLAS_COMPUTE_64F_PEDANTIC:
		return CUDA_R_64F;
	default:
		return CUDA_R_32F;
	}
}

} // namespace

extern "C" {

// An int form and its int64_t twin of the same function.
#define TWINS(DEFINE, name, ...)                                                                                       \
	DEFINE(name, int, __VA_ARGS__)                                                                                     \
	DEFINE(name##_64, int64_t, __VA_ARGS__)

#define HEAD(I) cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, I m, I n, I k

#define GEMM(name, I, T, type, compute)                                                                                \
	cublasStatus_t name(HEAD(I), const T *alpha, const T *A, I lda, const T *B, I ldb, const T *beta, T *C, I ldc)     \
	{                                                                                                                  \
		return run(                                                                                                    \
		    {__func__, handle, transa, transb, m, n, k, alpha, {A, type, lda}, {B, type, ldb}, beta, {C, type, ldc}},  \
		    Table::gemmex, compute, type);                                                                             \
	}
TWINS(GEMM, cublasSgemm_v2, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
TWINS(GEMM, cublasDgemm_v2, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)

#define STRIDED(name, I, T, type, compute)                                                                             \
	cublasStatus_t name(HEAD(I), const T *alpha, const T *A, I lda, long long strideA, const T *B, I ldb,              \
	                    long long strideB, const T *beta, T *C, I ldc, long long strideC, I batchCount)                \
	{                                                                                                                  \
		return run({__func__,                                                                                          \
		            handle,                                                                                            \
		            transa,                                                                                            \
		            transb,                                                                                            \
		            m,                                                                                                 \
		            n,                                                                                                 \
		            k,                                                                                                 \
		            alpha,                                                                                             \
		            {A, type, lda, strideA},                                                                           \
		            {B, type, ldb, strideB},                                                                           \
		            beta,                                                                                              \
		            {C, type, ldc, strideC},                                                                           \
		            batchCount},                                                                                       \
		           Table::gemmex, compute, type);                                                                      \
	}
TWINS(STRIDED, cublasSgemmStridedBatched, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
TWINS(STRIDED, cublasDgemmStridedBatched, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)

#define SGEMM_EX(name, I, ...)                                                                                         \
	cublasStatus_t name(HEAD(I), const float *alpha, const void *A, cudaDataType Atype, I lda, const void *B,          \
	                    cudaDataType Btype, I ldb, const float *beta, void *C, cudaDataType Ctype, I ldc)              \
	{                                                                                                                  \
		return run({__func__,                                                                                          \
		            handle,                                                                                            \
		            transa,                                                                                            \
		            transb,                                                                                            \
		            m,                                                                                                 \
		            n,                                                                                                 \
		            k,                                                                                                 \
		            alpha,                                                                                             \
		            {A, Atype, lda},                                                                                   \
		            {B, Btype, ldb},                                                                                   \
		            beta,                                                                                              \
		            {C, Ctype, ldc}},                                                                                  \
		           Table::sgemmex, CUBLAS_COMPUTE_32F, CUDA_R_32F);                                                    \
	}
TWINS(SGEMM_EX, cublasSgemmEx)

#define GEMM_EX(name, I, ...)                                                                                          \
	cublasStatus_t name(HEAD(I), const void *alpha, const void *A, cudaDataType Atype, I lda, const void *B,           \
	                    cudaDataType Btype, I ldb, const void *beta, void *C, cudaDataType Ctype, I ldc,               \
	                    cublasComputeType_t computeType, cublasGemmAlgo_t)                                             \
	{                                                                                                                  \
		return run({__func__,                                                                                          \
		            handle,                                                                                            \
		            transa,                                                                                            \
		            transb,                                                                                            \
		            m,                                                                                                 \
		            n,                                                                                                 \
		            k,                                                                                                 \
		            alpha,                                                                                             \
		            {A, Atype, lda},                                                                                   \
		            {B, Btype, ldb},                                                                                   \
		            beta,                                                                                              \
		            {C, Ctype, ldc}},                                                                                  \
		           Table::gemmex, computeType, scaleOf(computeType));                                                  \
	}
TWINS(GEMM_EX, cublasGemmEx)

#define GEMM_STRIDED_EX(name, I, ...)                                                                                  \
	cublasStatus_t name(HEAD(I), const void *alpha, const void *A, cudaDataType Atype, I lda, long long strideA,       \
	                    const void *B, cudaDataType Btype, I ldb, long long strideB, const void *beta, void *C,        \
	                    cudaDataType Ctype, I ldc, long long strideC, I batchCount, cublasComputeType_t computeType,   \
	                    cublasGemmAlgo_t)                                                                              \
	{                                                                                                                  \
		return run({__func__,                                                                                          \
		            handle,                                                                                            \
		            transa,                                                                                            \
		            transb,                                                                                            \
		            m,                                                                                                 \
		            n,                                                                                                 \
		            k,                                                                                                 \
		            alpha,                                                                                             \
		            {A, Atype, lda, strideA},                                                                          \
		            {B, Btype, ldb, strideB},                                                                          \
		            beta,                                                                                              \
		            {C, Ctype, ldc, strideC},                                                                          \
		            batchCount},                                                                                       \
		           Table::gemmex, computeType, scaleOf(computeType));                                                  \
	}
TWINS(GEMM_STRIDED_EX, cublasGemmStridedBatchedEx)

} // extern "C"
