// Matrix products: every pair of transposes, sizes with and without a remainder, gaps between columns, batches, device
// scalars, GemmEx, and cublasLtMatmul with an epilogue.
#include "tools/self_test/session.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace self_test {

namespace {

struct Cublas {
	void *library = open({"libcublas.so.13", "libcublas.so.12"});
	FUNCTION(library, cublasCreate_v2);
	FUNCTION(library, cublasDestroy_v2);
	FUNCTION(library, cublasSetPointerMode_v2);
	FUNCTION(library, cublasSgemm_v2);
	// Overloaded in the header: this is the exported function.
	using GemmEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void *,
	                              const void *, cudaDataType, int, const void *, cudaDataType, int, const void *,
	                              void *, cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);
	GemmEx *cublasGemmEx = find<GemmEx *>(library, "cublasGemmEx");
	FUNCTION(library, cublasSgemmBatched);
	FUNCTION(library, cublasSgemmStridedBatched);
};

struct CublasLt {
	void *library = open({"libcublasLt.so.13", "libcublasLt.so.12"});
	FUNCTION(library, cublasLtMatmul);
	FUNCTION(library, cublasLtMatmulDescCreate);
	FUNCTION(library, cublasLtMatmulDescSetAttribute);
	FUNCTION(library, cublasLtMatmulDescDestroy);
	FUNCTION(library, cublasLtMatrixLayoutCreate);
	FUNCTION(library, cublasLtMatrixLayoutDestroy);
};

// C = alpha op(A) op(B) + beta C, in each of `batch` matrices.
struct Problem {
	Problem(int m_, int n_, int k_, bool transA, bool transB, float beta_, int exponent, int batch_ = 1)
	    : m(m_), n(n_), k(k_), batch(batch_), opA(transA ? CUBLAS_OP_T : CUBLAS_OP_N),
	      opB(transB ? CUBLAS_OP_T : CUBLAS_OP_N), lda((transA ? k : m) + gap), ldb((transB ? n : k) + gap),
	      ldc(m + gap), strideA(int64_t{lda} * (transA ? m : k)), strideB(int64_t{ldb} * (transB ? k : n)),
	      strideC(int64_t{ldc} * n), beta(beta_), a(static_cast<size_t>(strideA * batch)),
	      b(static_cast<size_t>(strideB * batch)), c(static_cast<size_t>(strideC * batch))
	{
		fill(a.host, exponent);
		fill(b.host, 0);
		fill(c.host, exponent);
		a.upload(), b.upload(), c.upload();
	}
	// bias: one value per row of C; with it, ReLU follows.
	double error(const float *bias = nullptr) const
	{
		const std::vector<float> computed = c.download();
		const int64_t rowA = opA == CUBLAS_OP_N ? 1 : lda, stepA = lda + 1 - rowA;
		const int64_t columnB = opB == CUBLAS_OP_N ? ldb : 1, stepB = ldb + 1 - columnB;
		double wrong = 0, norm = 0;
		for (int64_t i = 0; i < strideC * batch; i++) {
			const int64_t row = i % strideC % ldc, column = i % strideC / ldc;
			const auto at = static_cast<size_t>(i);
			if (row >= m) {
				if (std::memcmp(&computed[at], &c.host[at], sizeof(float)) != 0)
					return INFINITY; // the gap was written
				continue;
			}
			const float *const left = &a.host[static_cast<size_t>(i / strideC * strideA + row * rowA)];
			const float *const right = &b.host[static_cast<size_t>(i / strideC * strideB + column * columnB)];
			double sum = 0;
			for (int64_t l = 0; l < k; l++)
				sum += double{left[l * stepA]} * double{right[l * stepB]};
			sum *= double{alpha};
			double exact = sum + double{beta} * double{c.host[at]};
			if (bias)
				exact = std::max(0.0, exact + double{bias[row]});
			const double off = exact - double{computed[at]};
			wrong += off * off, norm += sum * sum;
		}
		return std::sqrt(wrong / norm);
	}

	static constexpr int gap = 3;
	const int m, n, k, batch;
	const cublasOperation_t opA, opB;
	const int lda, ldb, ldc;
	const int64_t strideA, strideB, strideC;
	const float alpha = -1.5f, beta;
	Array<float> a, b, c;
};

class Products
{
public:
	explicit Products(bool hasRange) : large_(hasRange ? 20 : 0), small_(hasRange ? -20 : 0)
	{
		NEED(cublas_.cublasCreate_v2(&handle_));
	}
	~Products() { cublas_.cublasDestroy_v2(handle_); }
	Products(const Products &) = delete;
	Products &operator=(const Products &) = delete;

	void plain(const Report &report)
	{
		constexpr int sizes[][3] = {{64, 64, 64}, {129, 65, 131}, {17, 200, 33}, {256, 192, 224}};
		int turn = 0;
		for (const auto &[m, n, k] : sizes)
			for (const bool transA : {false, true})
				for (const bool transB : {false, true}) {
					const int exponents[] = {0, large_, small_};
					Problem of(m, n, k, transA, transB, turn % 2 ? 0.5f : 0, exponents[turn % 3]);
					turn++;
					NEED(cublas_.cublasSgemm_v2(handle_, of.opA, of.opB, m, n, k, &of.alpha, of.a.device(), of.lda,
					                            of.b.device(), of.ldb, &of.beta, of.c.device(), of.ldc));
					report("cublasSgemm", of.error());
				}
	}
	void deviceScalars(const Report &report)
	{
		Problem of(96, 80, 112, true, false, 0.5f, large_);
		Array<float> scalars(2);
		scalars.host = {of.alpha, of.beta};
		scalars.upload();
		NEED(cublas_.cublasSetPointerMode_v2(handle_, CUBLAS_POINTER_MODE_DEVICE));
		NEED(cublas_.cublasSgemm_v2(handle_, of.opA, of.opB, of.m, of.n, of.k, scalars.device(), of.a.device(), of.lda,
		                            of.b.device(), of.ldb, scalars.device() + 1, of.c.device(), of.ldc));
		report("cublasSgemm", of.error());
		NEED(cublas_.cublasSetPointerMode_v2(handle_, CUBLAS_POINTER_MODE_HOST));
	}
	void extended(const Report &report)
	{
		Problem of(72, 104, 88, false, true, 0, small_);
		NEED(cublas_.cublasGemmEx(handle_, of.opA, of.opB, of.m, of.n, of.k, &of.alpha, of.a.device(), CUDA_R_32F,
		                          of.lda, of.b.device(), CUDA_R_32F, of.ldb, &of.beta, of.c.device(), CUDA_R_32F,
		                          of.ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
		report("cublasGemmEx", of.error());
	}
	void batches(const Report &report)
	{
		Problem of(40, 56, 72, false, false, 0.5f, large_, 5);
		NEED(cublas_.cublasSgemmStridedBatched(handle_, of.opA, of.opB, of.m, of.n, of.k, &of.alpha, of.a.device(),
		                                       of.lda, of.strideA, of.b.device(), of.ldb, of.strideB, &of.beta,
		                                       of.c.device(), of.ldc, of.strideC, of.batch));
		report("cublasSgemmStridedBatched", of.error());
		Problem by(48, 40, 64, true, true, 0, small_, 4);
		Array<float *> pointers(static_cast<size_t>(3 * by.batch));
		for (int i = 0; i < by.batch; i++) {
			const auto at = static_cast<size_t>(i), count = static_cast<size_t>(by.batch);
			pointers.host[at] = by.a.device() + i * by.strideA;
			pointers.host[at + count] = by.b.device() + i * by.strideB;
			pointers.host[at + 2 * count] = by.c.device() + i * by.strideC;
		}
		pointers.upload();
		NEED(cublas_.cublasSgemmBatched(handle_, by.opA, by.opB, by.m, by.n, by.k, &by.alpha, pointers.device(), by.lda,
		                                pointers.device() + by.batch, by.ldb, &by.beta,
		                                pointers.device() + 2 * by.batch, by.ldc, by.batch));
		report("cublasSgemmBatched", by.error());
	}
	// A cuBLAS handle is also a cuBLASLt handle.
	void epilogue(const Report &report)
	{
		const CublasLt lt;
		Problem of(80, 48, 96, true, false, 0, large_);
		Array<float> bias(static_cast<size_t>(of.m));
		fill(bias.host, large_);
		bias.upload();
		cublasLtMatmulDesc_t product = nullptr;
		NEED(lt.cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
		const auto set = [&](cublasLtMatmulDescAttributes_t name, const auto &value) {
			NEED(lt.cublasLtMatmulDescSetAttribute(product, name, &value, sizeof value));
		};
		const cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_RELU_BIAS;
		set(CUBLASLT_MATMUL_DESC_TRANSA, of.opA);
		set(CUBLASLT_MATMUL_DESC_TRANSB, of.opB);
		set(CUBLASLT_MATMUL_DESC_EPILOGUE, kind);
		float *const values = bias.device();
		set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, values);
		cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
		const auto layout = [&](cublasLtMatrixLayout_t &made, int rows, int columns, int ld) {
			NEED(lt.cublasLtMatrixLayoutCreate(&made, CUDA_R_32F, static_cast<uint64_t>(rows),
			                                   static_cast<uint64_t>(columns), ld));
		};
		layout(a, of.k, of.m, of.lda);
		layout(b, of.k, of.n, of.ldb);
		layout(c, of.m, of.n, of.ldc);
		NEED(lt.cublasLtMatmul(reinterpret_cast<cublasLtHandle_t>(handle_), product, &of.alpha, of.a.device(), a,
		                       of.b.device(), b, &of.beta, of.c.device(), c, of.c.device(), c, nullptr, nullptr, 0,
		                       nullptr));
		report("cublasLtMatmul", of.error(bias.host.data()));
		for (cublasLtMatrixLayout_t each : {a, b, c})
			lt.cublasLtMatrixLayoutDestroy(each);
		lt.cublasLtMatmulDescDestroy(product);
	}

private:
	const Cublas cublas_;
	cublasHandle_t handle_ = nullptr;
	const int large_, small_; // exponents of operands
};

} // namespace

void multiply(bool hasRange, const Report &report)
{
	driver();
	Products products(hasRange);
	products.plain(report);
	products.deviceScalars(report);
	products.extended(report);
	products.batches(report);
	products.epilogue(report);
}

} // namespace self_test
