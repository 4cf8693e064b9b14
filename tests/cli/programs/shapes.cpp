// shapes ENTRY,M,N,K,BATCH,TYPE...: makes one call of each and ignores the status. It does not depend on autoamp.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr auto N = CUBLAS_OP_N;
constexpr size_t bytes = 16 << 20;
const float one = 1, zero = 0;

struct Call {
	char entry[64], type[16];
	int m, n, k, batch;

	bool is(const char *name) const { return std::strcmp(entry, name) == 0; }
	cudaDataType dtype() const
	{
		return !std::strcmp(type, "float16")    ? CUDA_R_16F
		       : !std::strcmp(type, "bfloat16") ? CUDA_R_16BF
		       : !std::strcmp(type, "float64")  ? CUDA_R_64F
		                                        : CUDA_R_32F;
	}
};

void matmul(cublasHandle_t h, const Call &c, float *x, float *y)
{
	cublasLtMatmulDesc_t desc = nullptr;
	cublasLtMatrixLayout_t layout[3] = {};
	const int sizes[3][2] = {{c.m, c.k}, {c.k, c.n}, {c.m, c.n}};
	cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
	for (int i = 0; i < 3; i++) {
		const int64_t stride = static_cast<int64_t>(sizes[i][0]) * sizes[i][1];
		cublasLtMatrixLayoutCreate(&layout[i], c.dtype(), sizes[i][0], sizes[i][1], sizes[i][0]);
		cublasLtMatrixLayoutSetAttribute(layout[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &c.batch, sizeof c.batch);
		cublasLtMatrixLayoutSetAttribute(layout[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
		                                 sizeof stride);
	}
	cublasLtMatmul(reinterpret_cast<cublasLtHandle_t>(h), desc, &one, x, layout[0], x, layout[1], &zero, y, layout[2],
	               y, layout[2], nullptr, nullptr, 0, nullptr);
}

// All matrices of a batch are the first one; the results are separate.
void batched(cublasHandle_t h, const Call &c, float *x, float *y)
{
	float *host[64];
	float **results = nullptr, **operands = nullptr;
	for (float *&pointer : host)
		pointer = x;
	cudaMalloc(reinterpret_cast<void **>(&operands), sizeof host);
	cudaMemcpy(operands, host, sizeof host, cudaMemcpyHostToDevice);
	for (int i = 0; i < 64; i++)
		host[i] = y + static_cast<ptrdiff_t>(i % c.batch) * c.m * c.n;
	cudaMalloc(reinterpret_cast<void **>(&results), sizeof host);
	cudaMemcpy(results, host, sizeof host, cudaMemcpyHostToDevice);
	if (c.is("cublasSgemmBatched"))
		cublasSgemmBatched(h, N, N, c.m, c.n, c.k, &one, operands, c.m, operands, c.k, &zero, results, c.m, c.batch);
	else
		cublasGemmBatchedEx(h, N, N, c.m, c.n, c.k, &one, reinterpret_cast<void **>(operands), c.dtype(), c.m,
		                    reinterpret_cast<void **>(operands), c.dtype(), c.k, &zero,
		                    reinterpret_cast<void **>(results), c.dtype(), c.m, c.batch, CUBLAS_COMPUTE_32F,
		                    CUBLAS_GEMM_DEFAULT);
}

void call(cublasHandle_t h, const Call &c, float *x, float *y)
{
	const int m = c.m, n = c.n, k = c.k, lda = m ? m : 1, ldb = k ? k : 1;
	const long long a = 1LL * m * k, b = 1LL * k * n, r = 1LL * m * n;
	const auto t = c.dtype();
	const auto compute = t == CUDA_R_64F ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
	if (c.is("cublasSgemm_v2"))
		cublasSgemm(h, N, N, m, n, k, &one, x, lda, x, ldb, &zero, y, lda);
	else if (c.is("cublasSgemm_v2_64"))
		cublasSgemm_64(h, N, N, m, n, k, &one, x, lda, x, ldb, &zero, y, lda);
	else if (c.is("cublasSgemmEx"))
		cublasSgemmEx(h, N, N, m, n, k, &one, x, t, lda, x, t, ldb, &zero, y, t, lda);
	else if (c.is("cublasGemmEx"))
		cublasGemmEx(h, N, N, m, n, k, &one, x, t, lda, x, t, ldb, &zero, y, t, lda, compute, CUBLAS_GEMM_DEFAULT);
	else if (c.is("cublasSgemmStridedBatched"))
		cublasSgemmStridedBatched(h, N, N, m, n, k, &one, x, lda, a, x, ldb, b, &zero, y, lda, r, c.batch);
	else if (c.is("cublasGemmStridedBatchedEx"))
		cublasGemmStridedBatchedEx(h, N, N, m, n, k, &one, x, t, lda, a, x, t, ldb, b, &zero, y, t, lda, r, c.batch,
		                           compute, CUBLAS_GEMM_DEFAULT);
	else if (c.is("cublasSgemmBatched") || c.is("cublasGemmBatchedEx"))
		batched(h, c, x, y);
	else if (c.is("cublasLtMatmul"))
		matmul(h, c, x, y);
	else if (c.is("cublasSgemv_v2"))
		cublasSgemv(h, N, m, n, &one, x, lda, x, 1, &zero, y, 1);
	else if (c.is("cublasSaxpy_v2"))
		cublasSaxpy(h, n, &one, x, 1, y, 1);
	else if (c.is("cublasScalEx"))
		cublasScalEx(h, n, &one, CUDA_R_32F, y, t, 1, CUDA_R_32F);
	else if (c.is("cublasSsyrk_v2"))
		cublasSsyrk(h, CUBLAS_FILL_MODE_LOWER, N, n, k, &one, x, n, &zero, y, n);
	else if (c.is("cublasStrsm_v2"))
		cublasStrsm(h, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, N, CUBLAS_DIAG_UNIT, m, n, &one, x, lda, y, lda);
	else if (c.is("cublasCgemm_v2"))
		cublasCgemm(h, N, N, m, n, k, reinterpret_cast<const cuComplex *>(&one), reinterpret_cast<cuComplex *>(x), lda,
		            reinterpret_cast<cuComplex *>(x), ldb, reinterpret_cast<const cuComplex *>(&zero),
		            reinterpret_cast<cuComplex *>(y), lda);
	else
		std::exit(3);
}

} // namespace

int main(int count, char **words)
{
	void *x = nullptr, *y = nullptr;
	cublasHandle_t handle = nullptr;
	if (cudaMalloc(&x, bytes) || cudaMalloc(&y, bytes) || cudaMemset(x, 0, bytes) || cublasCreate(&handle))
		return 1;
	for (int i = 1; i < count; i++) {
		Call c = {};
		if (std::sscanf(words[i], "%63[^,],%d,%d,%d,%d,%15s", c.entry, &c.m, &c.n, &c.k, &c.batch, c.type) != 6)
			return 2;
		call(handle, c, static_cast<float *>(x), static_cast<float *>(y));
		cudaDeviceSynchronize();
	}
	return 0;
}
