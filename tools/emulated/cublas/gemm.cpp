// Matrix products: argument checks in the documented order, then Products on the handle's stream.
#include "tools/emulated/cublas/call.h"
#include "tools/emulated/device/core.h"

#include <cublasLt.h>

using namespace emulated::blas;

namespace emulated::cublas {

namespace {

// fp32 operands follow the math mode if the compute type is 32F. The modes share their low bits, so they must be
// compared as a whole.
Rounding roundingOf(const Handle &handle, cublasComputeType_t compute, cudaDataType operand)
{
	if (operand != CUDA_R_32F && operand != CUDA_C_32F)
		return Rounding::None;
	if (compute == CUBLAS_COMPUTE_32F && (handle.mathMode & 0xf) == CUBLAS_TF32_TENSOR_OP_MATH)
		compute = CUBLAS_COMPUTE_32F_FAST_TF32;
	if (compute == CUBLAS_COMPUTE_32F && (handle.mathMode & 0xf) == CUBLAS_TENSOR_OP_MATH)
		compute = CUBLAS_COMPUTE_32F_FAST_16F;
	return emulated::blas::roundingOf(compute);
}

// 16-bit products call the public cublasLtMatmul with the application's own handle, as the real libcublas does through
// its dynamic table. Interception of cublasLtMatmul therefore sees calls that no application made.
cublasStatus_t runThroughLt(const Call &call, const Product &product)
{
	auto *handle = reinterpret_cast<cublasLtHandle_t>(call.handle);
	constexpr int plainAlgorithm = 1; // any alignment and no workspace: the result does not depend on the handle's
	                                  // workspace
	cublasLtMatmulAlgo_t algorithm;
	if (cublasStatus_t status =
	        cublasLtMatmulAlgoInit(handle, product.compute, product.scaleType, call.A.type, call.B.type, call.C.type,
	                               call.C.type, plainAlgorithm, &algorithm))
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
		const int batch = static_cast<int>(call.batchCount);
		failed |= cublasLtMatrixLayoutInit(&layout, matrix.type, rows, columns, matrix.ld);
		failed |= cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch);
		failed |= cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.stride,
		                                           sizeof matrix.stride);
	};
	cublasLtMatrixLayoutOpaque_t a, b, c;
	init(a, call.A, product.transposeA ? call.k : call.m, product.transposeA ? call.m : call.k);
	init(b, call.B, product.transposeB ? call.n : call.k, product.transposeB ? call.k : call.n);
	init(c, call.C, call.m, call.n);
	if (failed)
		return CUBLAS_STATUS_INTERNAL_ERROR;
	return cublasLtMatmul(handle, &desc, call.alpha.data, call.A.data, &a, call.B.data, &b, call.beta.data, call.C.data,
	                      &c, const_cast<void *>(call.C.data), &c, &algorithm, product.workspace,
	                      product.workspaceBytes, call.handle->stream);
}

cublasComputeType_t computeOf(cudaDataType scale)
{
	return scale == CUDA_R_16F                          ? CUBLAS_COMPUTE_16F
	       : scale == CUDA_R_64F || scale == CUDA_C_64F ? CUBLAS_COMPUTE_64F
	                                                    : CUBLAS_COMPUTE_32F;
}

cudaDataType scaleOf(cublasComputeType_t compute, cudaDataType operand)
{
	const bool isComplex = operand == CUDA_C_32F || operand == CUDA_C_64F;
	switch (compute) {
	case CUBLAS_COMPUTE_16F:
	case CUBLAS_COMPUTE_16F_PEDANTIC:
		return CUDA_R_16F;
	case CUBLAS_COMPUTE_64F:
	case CUBLAS_COMPUTE_64F_PEDANTIC:
		return isComplex ? CUDA_C_64F : CUDA_R_64F;
	default:
		return isComplex ? CUDA_C_32F : CUDA_R_32F;
	}
}

bool isAlgorithm(int algo)
{
	return (algo >= CUBLAS_GEMM_DEFAULT && algo <= CUBLAS_GEMM_ALGO23) ||
	       (algo >= CUBLAS_GEMM_DEFAULT_TENSOR_OP && algo <= CUBLAS_GEMM_ALGO15_TENSOR_OP) ||
	       algo == CUBLAS_GEMM_AUTOTUNE;
}

// Describes the product of a valid call; an empty product has no work.
cublasStatus_t describe(const Call &call, Table table, Product &product)
{
	if (!isOperation(call.transa) || !isOperation(call.transb) || call.m < 0 || call.n < 0 || call.k < 0)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!isLd(call.A.ld, call.transa == CUBLAS_OP_N ? call.m : call.k) ||
	    !isLd(call.B.ld, call.transb == CUBLAS_OP_N ? call.k : call.n) || !isLd(call.C.ld, call.m))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (call.batchCount < 0 || !isAlgorithm(call.algo))
		return CUBLAS_STATUS_INVALID_VALUE;
	product.compute = call.computeType.value_or(computeOf(call.alpha.type));
	product.scaleType = isGiven(call.alpha) ? call.alpha.type : scaleOf(product.compute, call.A.type);
	if (!find(table, product.compute, product.scaleType, call.A.type, call.B.type, call.C.type, call.C.type))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	product.m = call.m;
	product.n = call.n;
	product.k = call.k;
	product.batch = call.batchCount;
	if (product.isEmpty())
		return CUBLAS_STATUS_SUCCESS;
	if (!call.alpha.data || !call.beta.data)
		return CUBLAS_STATUS_INVALID_VALUE;

	product.transposeA = call.transa != CUBLAS_OP_N;
	product.transposeB = call.transb != CUBLAS_OP_N;
	product.a = call.A;
	product.b = call.B;
	product.c = product.d = call.C;
	product.a.isConjugated = call.transa == CUBLAS_OP_C;
	product.b.isConjugated = call.transb == CUBLAS_OP_C;
	product.rounding = roundingOf(*call.handle, product.compute, call.A.type);
	product.deviceScalars = call.handle->hasDeviceScalars();
	product.alpha = call.alpha.data;
	product.beta = call.beta.data;
	product.workspace = call.handle->workspace;
	product.workspaceBytes = call.handle->workspaceBytes;
	readScalars(product);
	const bool readsC = !product.deviceScalars && product.betaValue != 0.0;
	return !call.C.data && readsC ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

// If the program has set no workspace, a captured product allocates one by nodes of the graph, as on an H100.
class CapturedWorkspace
{
public:
	explicit CapturedWorkspace(const Handle &handle) : stream_(handle.stream)
	{
		constexpr size_t bytes = 1 << 20;
		cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
		const bool isCaptured = !giveCapture(stream_, &status, nullptr, nullptr, nullptr, nullptr, nullptr) &&
		                        status == cudaStreamCaptureStatusActive;
		if (isCaptured && !handle.workspace && allocateAsync(&memory_, bytes, nullptr, stream_))
			memory_ = nullptr;
	}
	~CapturedWorkspace()
	{
		if (memory_)
			freeAsync(memory_, stream_);
	}
	CapturedWorkspace(const CapturedWorkspace &) = delete;

private:
	const cudaStream_t stream_;
	void *memory_ = nullptr;
};

cublasStatus_t run(const Call &call, Table table)
{
	Product product;
	if (cublasStatus_t status = describe(call, table, product); status || product.isEmpty())
		return status;
	if (cublasStatus_t status = ready(*call.handle, call.handle->stream))
		return status;
	const CapturedWorkspace workspace(*call.handle);
	if (call.A.type != product.scaleType && !call.A.isArray && call.A.data && call.B.data && call.C.data)
		return runThroughLt(call, product);
	return blas::enqueue(call.handle->stream, call.name, {product});
}

} // namespace

ROUTINE(gemm, run, Table::gemmex)
ROUTINE(sgemmEx, run, Table::sgemmex)

// Each group is a batch. The pointers of all groups are in the same three arrays.
cublasStatus_t gemmGrouped(Call &call)
{
	for (const void *array :
	     {static_cast<const void *>(call.transa_array), static_cast<const void *>(call.transb_array), call.m_array.data,
	      call.n_array.data, call.k_array.data, call.alpha_array.data, call.lda_array.data, call.ldb_array.data,
	      call.beta_array.data, call.ldc_array.data, call.group_size.data})
		if (!array)
			return CUBLAS_STATUS_INVALID_VALUE;
	if (call.group_count < 0)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (call.handle->hasDeviceScalars())
		return CUBLAS_STATUS_NOT_SUPPORTED;
	std::vector<Product> products;
	Call one = call;
	one.alpha = call.alpha_array;
	one.beta = call.beta_array;
	auto integer = [](const Matrix &array, int64_t i) {
		return as<int64_t>(numberAt(array.type, array.moved(i).data));
	};
	for (int64_t i = 0; i < call.group_count; ++i) {
		one.transa = call.transa_array[i];
		one.transb = call.transb_array[i];
		one.m = integer(call.m_array, i);
		one.n = integer(call.n_array, i);
		one.k = integer(call.k_array, i);
		one.A.ld = integer(call.lda_array, i);
		one.B.ld = integer(call.ldb_array, i);
		one.C.ld = integer(call.ldc_array, i);
		one.batchCount = integer(call.group_size, i);
		Product product;
		if (cublasStatus_t status = describe(one, Table::grouped, product))
			return status;
		if (!product.isEmpty())
			products.push_back(product);
		for (Matrix *array : {&one.A, &one.B, &one.C})
			*array = array->moved(one.batchCount);
		for (Matrix *scalar : {&one.alpha, &one.beta})
			scalar->data = Matrix{scalar->data, product.scaleType}.moved(1).data;
	}
	if (products.empty())
		return CUBLAS_STATUS_SUCCESS;
	if (cublasStatus_t status = ready(*call.handle, call.handle->stream))
		return status;
	return enqueue(call.handle->stream, call.name, std::move(products));
}

} // namespace emulated::cublas
