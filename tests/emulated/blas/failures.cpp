// AUTOAMP_EMU_FAIL reaches every function of the emulated cuBLAS that is more than a stub: the N-th call returns its
// documented failure and changes nothing, the next one works. Each row runs in a separate process.
#include <cublasLt.h>
#include <cublasXt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

namespace {

// Arguments of the rows; made in the child, so that rows do not share state.
struct World {
	cublasHandle_t blas = nullptr, spare = nullptr;
	cublasLtHandle_t lt = nullptr;
	cublasLtMatmulDesc_t desc = nullptr;
	cublasLtMatrixLayout_t layout = nullptr;
	cublasLtMatmulPreference_t preference = nullptr;
	cublasLtMatmulHeuristicResult_t result{};
	float *memory = nullptr;
	float one = 1, host[16] = {};
	int number = 0;
	size_t size = 0;
};

bool make(World &w)
{
	return cublasCreate(&w.blas) == 0 && cublasLtCreate(&w.lt) == 0 &&
	       cublasLtMatmulDescCreate(&w.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) == 0 &&
	       cublasLtMatrixLayoutCreate(&w.layout, CUDA_R_32F, 4, 4, 4) == 0 &&
	       cublasLtMatmulPreferenceCreate(&w.preference) == 0 &&
	       cudaMalloc(reinterpret_cast<void **>(&w.memory), 4096) == cudaSuccess &&
	       cudaMemset(w.memory, 0, 4096) == cudaSuccess;
}

struct Row {
	const char *name;
	cublasStatus_t failure;
	std::function<cublasStatus_t(World &)> call;
	int before = 0; // calls to the same function in make()
};

constexpr auto N = CUBLAS_OP_N;
constexpr auto F = CUDA_R_32F;

const Row rows[] = {
    {"cublasCreate_v2", CUBLAS_STATUS_ALLOC_FAILED, [](World &w) { return cublasCreate(&w.spare); }, 1},
    {"cublasLtCreate", CUBLAS_STATUS_ALLOC_FAILED, [](World &w) { return cublasLtCreate(&w.lt); }, 1},
    {"cublasSetStream_v2", CUBLAS_STATUS_NOT_INITIALIZED, [](World &w) { return cublasSetStream(w.blas, nullptr); }},
    {"cublasSetPointerMode_v2", CUBLAS_STATUS_NOT_INITIALIZED,
     [](World &w) { return cublasSetPointerMode(w.blas, CUBLAS_POINTER_MODE_HOST); }},
    {"cublasGetMathMode", CUBLAS_STATUS_NOT_INITIALIZED,
     [](World &w) { return cublasGetMathMode(w.blas, reinterpret_cast<cublasMath_t *>(&w.number)); }},
    {"cublasSetWorkspace_v2", CUBLAS_STATUS_NOT_INITIALIZED,
     [](World &w) { return cublasSetWorkspace(w.blas, w.memory, 256); }},
    {"cublasSgemm_v2", CUBLAS_STATUS_EXECUTION_FAILED,
     [](World &w) {
	     return cublasSgemm(w.blas, N, N, 4, 4, 4, &w.one, w.memory, 4, w.memory, 4, &w.one, w.memory + 64, 4);
     }},
    {"cublasSgemm_v2_64", CUBLAS_STATUS_EXECUTION_FAILED,
     [](World &w) {
	     return cublasSgemm_64(w.blas, N, N, 4, 4, 4, &w.one, w.memory, 4, w.memory, 4, &w.one, w.memory + 64, 4);
     }},
    {"cublasGemmEx", CUBLAS_STATUS_EXECUTION_FAILED,
     [](World &w) {
	     return cublasGemmEx(w.blas, N, N, 4, 4, 4, &w.one, w.memory, F, 4, w.memory, F, 4, &w.one, w.memory + 64, F, 4,
	                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
     }},
    {"cublasSgemmStridedBatched", CUBLAS_STATUS_EXECUTION_FAILED,
     [](World &w) {
	     return cublasSgemmStridedBatched(w.blas, N, N, 4, 4, 4, &w.one, w.memory, 4, 0, w.memory, 4, 0, &w.one,
	                                      w.memory + 64, 4, 16, 2);
     }},
    {"cublasSgemmBatched", CUBLAS_STATUS_EXECUTION_FAILED,
     [](World &w) { return cublasSgemmBatched(w.blas, N, N, 0, 4, 4, &w.one, 0, 4, 0, 4, &w.one, 0, 4, 1); }},
    {"cublasGemmGroupedBatchedEx_64", CUBLAS_STATUS_EXECUTION_FAILED,
     [](World &w) {
	     const int64_t n = 0;
	     return cublasGemmGroupedBatchedEx_64(w.blas, &N, &N, &n, &n, &n, &w.one, nullptr, F, &n, nullptr, F, &n,
	                                          &w.one, nullptr, F, &n, 0, &n, CUBLAS_COMPUTE_32F);
     }},
    {"cublasSaxpy_v2", CUBLAS_STATUS_EXECUTION_FAILED,
     [](World &w) { return cublasSaxpy(w.blas, 4, &w.one, w.memory, 1, w.memory + 64, 1); }},
    {"cublasSnrm2_v2", CUBLAS_STATUS_EXECUTION_FAILED,
     [](World &w) { return cublasSnrm2(w.blas, 4, w.memory, 1, w.host); }},
    {"cublasZgeru_v2_64", CUBLAS_STATUS_EXECUTION_FAILED,
     [](World &w) {
	     const cuDoubleComplex one{1, 0};
	     auto *z = reinterpret_cast<cuDoubleComplex *>(w.memory);
	     return cublasZgeru_64(w.blas, 2, 2, &one, z, 1, z, 1, z + 8, 2);
     }},
    {"cublasStrsmBatched", CUBLAS_STATUS_EXECUTION_FAILED,
     [](World &w) {
	     return cublasStrsmBatched(w.blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, N, CUBLAS_DIAG_UNIT, 0, 4, &w.one,
	                               nullptr, 4, nullptr, 4, 1);
     }},
    {"cublasXtCreate", CUBLAS_STATUS_ALLOC_FAILED,
     [](World &w) { return cublasXtCreate(reinterpret_cast<cublasXtHandle_t *>(&w.spare)); }},
    {"cublasXtSgemm", CUBLAS_STATUS_EXECUTION_FAILED,
     [](World &w) {
	     cublasXtHandle_t xt;
	     int device = 0;
	     if (cublasXtCreate(&xt) || cublasXtDeviceSelect(xt, 1, &device))
		     return CUBLAS_STATUS_INTERNAL_ERROR;
	     return cublasXtSgemm(xt, N, N, 2, 2, 2, &w.one, w.host, 2, w.host, 2, &w.one, w.host + 8, 2);
     }},
    {"cublasSetVector", CUBLAS_STATUS_MAPPING_ERROR,
     [](World &w) { return cublasSetVector(4, 4, w.host, 1, w.memory, 1); }},
    {"cublasGetMatrix", CUBLAS_STATUS_MAPPING_ERROR,
     [](World &w) { return cublasGetMatrix(2, 2, 4, w.memory, 2, w.host, 2); }},
    {"cublasLtMatmulDescCreate", CUBLAS_STATUS_ALLOC_FAILED,
     [](World &w) { return cublasLtMatmulDescCreate(&w.desc, CUBLAS_COMPUTE_32F, F); }, 1},
    {"cublasLtMatmulDescInit_internal", CUBLAS_STATUS_ALLOC_FAILED,
     [](World &w) { return cublasLtMatmulDescInit_internal(w.desc, 256, CUBLAS_COMPUTE_32F, F); }},
    {"cublasLtMatmulDescSetAttribute", CUBLAS_STATUS_INVALID_VALUE,
     [](World &w) { return cublasLtMatmulDescSetAttribute(w.desc, CUBLASLT_MATMUL_DESC_TRANSA, &w.number, 4); }},
    {"cublasLtMatrixLayoutGetAttribute", CUBLAS_STATUS_INVALID_VALUE,
     [](World &w) {
	     return cublasLtMatrixLayoutGetAttribute(w.layout, CUBLASLT_MATRIX_LAYOUT_TYPE, nullptr, 0, &w.size);
     }},
    {"cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED,
     [](World &w) {
	     return cublasLtMatmulAlgoGetHeuristic(w.lt, w.desc, w.layout, w.layout, w.layout, w.layout, w.preference, 1,
	                                           &w.result, &w.number);
     }},
    {"cublasLtMatmul", CUBLAS_STATUS_EXECUTION_FAILED,
     [](World &w) {
	     return cublasLtMatmul(w.lt, w.desc, &w.one, w.memory, w.layout, w.memory, w.layout, &w.one, w.memory + 64,
	                           w.layout, w.memory + 64, w.layout, nullptr, nullptr, 0, nullptr);
     }},
};

// 0: the first call fails as it should and the second works.
int run(const Row &row)
{
	setenv("AUTOAMP_EMU_FAIL", (std::string(row.name) + ":" + std::to_string(row.before + 1)).c_str(), 1);
	World world;
	if (!make(world))
		return 1;
	if (row.call(world) != row.failure)
		return 2;
	if (row.call(world) != CUBLAS_STATUS_SUCCESS)
		return 3;
	return cudaDeviceSynchronize() == cudaSuccess ? 0 : 4;
}

// 0: handles cannot be made on a machine without a device, and the output is not changed.
int runWithoutDevice()
{
	setenv("AUTOAMP_EMU_DEVICES", "0", 1);
	auto *untouched = reinterpret_cast<cublasHandle_t>(0x5);
	cublasHandle_t handle = untouched;
	auto *lt = reinterpret_cast<cublasLtHandle_t *>(&handle);
	return cublasCreate(&handle) == CUBLAS_STATUS_NOT_INITIALIZED &&
	               cublasLtCreate(lt) == CUBLAS_STATUS_NOT_INITIALIZED && handle == untouched
	           ? 0
	           : 1;
}

bool isWrong(const char *name, const std::function<int()> &call)
{
	pid_t child = fork();
	if (child == 0)
		_exit(call());
	int status = 0;
	waitpid(child, &status, 0);
	if (status != 0)
		std::printf("%s: status %#x\n", name, status);
	return status != 0;
}

} // namespace

int main()
{
	int failed = isWrong("no device", runWithoutDevice);
	for (const Row &row : rows)
		failed += isWrong(row.name, [&] { return run(row); });
	std::printf("%zu functions, %d wrong\n", std::size(rows), failed);
	return failed != 0;
}
