// Statuses and their priority, settings of a handle, and misbehaving programs: each error must be detected.
#include "tests/emulated/blas/fixture.h"

#include <csetjmp>
#include <csignal>

namespace {

constexpr auto N = CUBLAS_OP_N, T = CUBLAS_OP_T, C = CUBLAS_OP_C;
constexpr auto Lower = CUBLAS_FILL_MODE_LOWER;
constexpr auto Left = CUBLAS_SIDE_LEFT, Right = CUBLAS_SIDE_RIGHT;
constexpr auto Invalid = CUBLAS_STATUS_INVALID_VALUE;
constexpr auto Uninitialized = CUBLAS_STATUS_NOT_INITIALIZED;

// The error of work that was accepted and failed on the device; then the device is reset and its handles are invalid.
cudaError_t deviceError()
{
	cudaError_t error = cudaDeviceSynchronize();
	cudaDeviceReset();
	cudaGetLastError();
	return error;
}

sigjmp_buf beforeFault;

// True if the call faults on the host, like reading a device address there.
template <typename Call>
bool faults(Call call)
{
	struct sigaction jump {
	}, old;
	jump.sa_handler = [](int) { siglongjmp(beforeFault, 1); };
	sigaction(SIGSEGV, &jump, &old);
	bool faulted = sigsetjmp(beforeFault, 1) != 0;
	if (!faulted)
		call();
	sigaction(SIGSEGV, &old, nullptr);
	return faulted;
}

} // namespace

TEST_CASE("GEMM arguments")
{
	Blas blas;
	DeviceArray<float> memory(256);
	const float one = 1, zero = 0;
	float *A = memory, *B = memory + 64, *C = memory + 128;
	auto gemm = [&](cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, int lda,
	                int ldb, int ldc, const float *alpha, const float *beta,
	                float *c) { return cublasSgemm(handle, ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, c, ldc); };
	CHECK(gemm(blas, N, N, 4, 3, 2, 4, 2, 4, &one, &zero, C) == CUBLAS_STATUS_SUCCESS);
	CHECK(gemm(nullptr, cublasOperation_t(9), N, -1, 3, 2, 4, 2, 4, &one, &zero, C) == Uninitialized);
	CHECK(gemm(blas, cublasOperation_t(9), N, 4, 3, 2, 4, 2, 4, &one, &zero, C) == Invalid);
	CHECK(gemm(blas, N, CUBLAS_OP_CONJG, 4, 3, 2, 4, 2, 4, &one, &zero, C) == Invalid);
	CHECK(gemm(blas, N, N, -4, 3, 2, 4, 2, 4, &one, &zero, C) == Invalid);
	CHECK(gemm(blas, N, N, 4, -3, 2, 4, 2, 4, &one, &zero, C) == Invalid);
	CHECK(gemm(blas, N, N, 4, 3, -2, 4, 2, 4, &one, &zero, C) == Invalid);
	CHECK(gemm(blas, N, N, 4, 3, 2, 3, 2, 4, &one, &zero, C) == Invalid);
	CHECK(gemm(blas, T, N, 4, 3, 2, 2, 2, 4, &one, &zero, C) == CUBLAS_STATUS_SUCCESS);
	CHECK(gemm(blas, T, N, 4, 3, 2, 1, 2, 4, &one, &zero, C) == Invalid);
	CHECK(gemm(blas, N, N, 4, 3, 2, 4, 1, 4, &one, &zero, C) == Invalid);
	CHECK(gemm(blas, N, T, 4, 3, 2, 4, 2, 4, &one, &zero, C) == Invalid);
	CHECK(gemm(blas, N, N, 4, 3, 2, 4, 2, 3, &one, &zero, C) == Invalid);
	CHECK(gemm(blas, N, N, 0, 3, 2, 0, 2, 1, &one, &zero, C) == Invalid); // for an empty matrix ld must still be 1
	CHECK(gemm(blas, N, N, 4, 3, 2, 4, 2, 4, nullptr, &zero, C) == Invalid);
	CHECK(gemm(blas, N, N, 4, 3, 2, 4, 2, 4, &one, nullptr, C) == Invalid);
	CHECK(gemm(blas, N, N, 0, 3, 2, 1, 2, 1, nullptr, nullptr, nullptr) == CUBLAS_STATUS_SUCCESS);
	CHECK(gemm(blas, N, N, 4, 3, 2, 4, 2, 4, &one, &one, nullptr) == Invalid);
	CHECK(cublasSgemmStridedBatched(blas, N, N, 4, 3, 2, &one, A, 4, 0, B, 2, 0, &zero, C, 4, 12, -1) == Invalid);
	CHECK(cublasSgemmStridedBatched(blas, N, N, 4, 3, 2, &one, A, 4, 0, B, 2, 0, &zero, C, 4, 12, 0) == 0);
	CHECK(cublasGemmEx(blas, N, N, 4, 3, 2, &one, A, CUDA_R_32F, 4, B, CUDA_R_32F, 2, &zero, C, CUDA_R_32F, 4,
	                   CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_NOT_SUPPORTED);
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("Handles and their settings")
{
	CHECK(cublasCreate(nullptr) == Invalid);
	CHECK(cublasDestroy(nullptr) == Uninitialized);
	CHECK(cublasLtCreate(nullptr) == Invalid);
	CHECK(cublasLtDestroy(nullptr) == Invalid);
	int version = 0;
	CHECK(cublasGetVersion(nullptr, &version) == 0);
	CHECK(version == 130100);
	CHECK(cublasGetVersion(nullptr, nullptr) == Invalid);

	Blas blas;
	cublasPointerMode_t pointerMode;
	CHECK(cublasGetPointerMode(nullptr, &pointerMode) == Uninitialized);
	CHECK(cublasGetPointerMode(blas, nullptr) == Invalid);
	CHECK(cublasSetPointerMode(blas, cublasPointerMode_t(2)) == Invalid);
	CHECK(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE) == 0);
	CHECK(cublasGetPointerMode(blas, &pointerMode) == 0);
	CHECK(pointerMode == CUBLAS_POINTER_MODE_DEVICE);
	for (int mode = -1; mode < 40; ++mode) {
		int low = mode & ~16;
		bool isMode = low == 0 || low == 1 || low == 2 || low == 3 || low == 4 || (low >= 8 && low <= 12);
		cublasMath_t stored;
		INFO(mode);
		CHECK(cublasSetMathMode(blas, cublasMath_t(mode)) == (mode >= 0 && isMode ? CUBLAS_STATUS_SUCCESS : Invalid));
		if (mode >= 0 && isMode) {
			CHECK(cublasGetMathMode(blas, &stored) == 0);
			CHECK(stored == mode);
		}
	}
	CHECK(cublasSetSmCountTarget(blas, -1) == Invalid);
	CHECK(cublasSetSmCountTarget(blas, 133) == Invalid);
	CHECK(cublasSetSmCountTarget(blas, 20) == 0);
	DeviceArray<float> workspace(1024);
	CHECK(cublasSetWorkspace(blas, workspace + 1, 256) == Invalid);
	CHECK(cublasSetWorkspace(blas, workspace, 256) == 0);

	cublasHandle_t dead;
	CHECK(cublasCreate(&dead) == 0);
	CHECK(cublasDestroy(dead) == 0);
	CHECK(cublasDestroy(dead) == Uninitialized);
	CHECK(cublasGetPointerMode(dead, &pointerMode) == Uninitialized);
	long nothing[16] = {};
	CHECK(cublasGetPointerMode(reinterpret_cast<cublasHandle_t>(nothing), &pointerMode) == Uninitialized);

	cublasLtHandle_t lt;
	CHECK(cublasLtCreate(&lt) == 0);
	CHECK(cublasGetPointerMode(reinterpret_cast<cublasHandle_t>(lt), &pointerMode) == Uninitialized);
	CHECK(cublasLtDestroy(lt) == 0);
}

TEST_CASE("A device reset kills cuBLAS handles")
{
	cublasHandle_t handle;
	cublasPointerMode_t mode;
	REQUIRE(cublasCreate(&handle) == 0);
	CHECK(cudaDeviceReset() == cudaSuccess);
	CHECK(cublasGetPointerMode(handle, &mode) == Uninitialized);
	int count = 0;
	CHECK(cublasLtMatmulAlgoGetHeuristic(reinterpret_cast<cublasLtHandle_t>(handle), nullptr, nullptr, nullptr, nullptr,
	                                     nullptr, nullptr, 1, nullptr, &count) == Uninitialized);
	CHECK(cublasDestroy(handle) == Uninitialized);
}

TEST_CASE("A workspace is the call's own, and gone after SetStream")
{
	Blas blas;
	const float one = 1, zero = 0;
	DeviceArray<float> a(std::vector<float>(16, 1)), c(16), workspace(std::vector<float>(64, 5));
	auto gemm = [&] { return cublasSgemm(blas, N, N, 4, 4, 4, &one, a, 4, a, 4, &zero, c, 4); };
	CHECK(cublasSetWorkspace(blas, workspace, 64 * sizeof(float)) == 0);
	CHECK(gemm() == 0);
	CHECK(std::isnan(workspace.read()[0])); // the program's data in it is lost
	CHECK(cudaMemset(workspace, 0, 64 * sizeof(float)) == cudaSuccess);
	CHECK(cublasSetStream(blas, nullptr) == 0);
	CHECK(gemm() == 0);
	CHECK(workspace.read()[0] == 0);
	CHECK(c.read()[0] == 4);
}

TEST_CASE("Work happens on the stream, not in the call")
{
	Blas blas;
	const float one = 1, zero = 0;
	cudaStream_t stream;
	cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
	CHECK(cublasSetStream(blas, stream) == 0);
	cudaStream_t stored;
	CHECK(cublasGetStream(blas, &stored) == 0);
	CHECK(stored == stream);
	DeviceArray<float> a(std::vector<float>(16, 1)), alpha(std::vector<float>{2}), beta(std::vector<float>{0}), c(16);
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
	CHECK(cublasSgemm(blas, N, N, 4, 4, 4, &one, a, 4, a, 4, &zero, c, 4) == 0);
	CHECK(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE) == 0);
	CHECK(cublasSgemm(blas, N, N, 4, 4, 4, alpha, a, 4, a, 4, beta, c + 8, 4) == 0);
	REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
	REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
	CHECK(c.read()[0] == 0); // captured, not run
	const float three = 3;
	CHECK(cudaMemcpy(alpha, &three, sizeof three, cudaMemcpyHostToDevice) == cudaSuccess);
	CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
	CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
	CHECK(c.read()[0] == 4);  // host scalars are frozen
	CHECK(c.read()[8] == 12); // device scalars are read at launch
	float result;
	REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
	CHECK(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST) == 0);
	CHECK(cublasSdot(blas, 4, a, 1, a, 1, &result) == CUBLAS_STATUS_EXECUTION_FAILED);
	CHECK(cudaStreamEndCapture(stream, &graph) != cudaSuccess);
	cudaGetLastError();
	cudaGraphExecDestroy(exec);
	cudaStreamDestroy(stream);
}

TEST_CASE("Wrong programs")
{
	auto make = [] {
		cublasHandle_t handle;
		REQUIRE(cublasCreate(&handle) == 0);
		return handle;
	};
	auto allocate = [](size_t bytes) {
		char *memory;
		REQUIRE(cudaMalloc(reinterpret_cast<void **>(&memory), bytes) == cudaSuccess);
		cudaMemset(memory, 0, bytes);
		return reinterpret_cast<float *>(memory);
	};
	const float one = 1, zero = 0;
	std::vector<float> host(16, 1);
	cublasHandle_t handle = make();
	float *device = allocate(64);
	auto gemm = [&](const float *a, float *c, const float *alpha = nullptr) {
		return cublasSgemm(handle, N, N, 4, 4, 4, alpha ? alpha : &one, a, 4, device, 4, &zero, c, 4);
	};
	SECTION("host memory as an operand")
	{
		CHECK(gemm(host.data(), device) == 0);
		CHECK(deviceError() == cudaErrorIllegalAddress);
	}
	SECTION("host memory as the result")
	{
		CHECK(gemm(device, host.data()) == 0);
		CHECK(deviceError() == cudaErrorIllegalAddress);
	}
	SECTION("an operand that ends too early")
	{
		CHECK(gemm(allocate(60), device) == 0);
		CHECK(deviceError() == cudaErrorIllegalAddress);
	}
	SECTION("freed memory")
	{
		float *gone = allocate(64);
		cudaFree(gone);
		CHECK(gemm(gone, device) == 0);
		CHECK(deviceError() == cudaErrorIllegalAddress);
	}
	SECTION("an address that is not a multiple of its element size")
	{
		float *large = allocate(256);
		CHECK(gemm(reinterpret_cast<float *>(reinterpret_cast<char *>(large) + 2), device) == 0);
		CHECK(deviceError() == cudaErrorMisalignedAddress);
	}
	SECTION("a host scalar in device pointer mode")
	{
		cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE);
		CHECK(gemm(device, device) == 0);
		CHECK(deviceError() == cudaErrorIllegalAddress);
	}
	SECTION("a device scalar in host pointer mode")
	{
		CHECK(faults([&] { gemm(device, device, device); }));
		CHECK(!faults([&] { gemm(device, device, &one); }));
	}
	SECTION("a workspace in host memory")
	{
		alignas(256) static char workspace[512];
		CHECK(cublasSetWorkspace(handle, workspace, sizeof workspace) == 0);
		CHECK(gemm(device, device) == 0);
		CHECK(deviceError() == cudaErrorIllegalAddress);
	}
	SECTION("a stream that is gone")
	{
		cudaStream_t stream;
		cudaStreamCreate(&stream);
		cublasSetStream(handle, stream);
		cudaStreamDestroy(stream);
		CHECK(gemm(device, device) == CUBLAS_STATUS_EXECUTION_FAILED);
		for (cudaStream_t known : {cudaStreamLegacy, cudaStreamPerThread}) {
			cublasSetStream(handle, known);
			CHECK(gemm(device, device) == 0);
		}
		CHECK(cudaDeviceSynchronize() == cudaSuccess);
	}
	SECTION("a broken context takes no more work")
	{
		CHECK(gemm(host.data(), device) == 0);
		CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
		CHECK(gemm(device, device) == CUBLAS_STATUS_EXECUTION_FAILED);
		cublasHandle_t second;
		CHECK(cublasCreate(&second) == Uninitialized);
	}
	SECTION("a handle used while another device is current")
	{
		int count = 0;
		cudaGetDeviceCount(&count);
		if (count > 1) {
			cudaSetDevice(1);
			CHECK(gemm(device, device) == CUBLAS_STATUS_EXECUTION_FAILED);
			cudaSetDevice(0);
			CHECK(gemm(device, device) == 0);
		}
	}
	deviceError();
}

TEST_CASE("Calls that are not emulated report it")
{
	Blas blas;
	CHECK(cublasSgetrfBatched(blas, 0, nullptr, 1, nullptr, nullptr, 0) == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("Arguments of levels 1 to 3")
{
	constexpr auto Good = CUBLAS_STATUS_SUCCESS, Bad = CUBLAS_STATUS_INVALID_VALUE;
	constexpr auto NoUplo = cublasFillMode_t(2);
	constexpr auto NoDiag = cublasDiagType_t(2);
	constexpr auto NoSide = cublasSideMode_t(2);
	constexpr auto NoOp = cublasOperation_t(3);
	constexpr auto Unit = CUBLAS_DIAG_UNIT;
	Blas made;
	cublasHandle_t h = made;
	DeviceArray<float> memory(256), other(256);
	DeviceArray<cuComplex> complexes(64);
	float one = 1, result = 0, *A = memory, *B = other;
	const cuComplex z{1, 0};
	cuComplex *Z = complexes;
	const struct {
		const char *call;
		cublasStatus_t got, expected;
	} rows[] = {
#define ROW(expected, call) {#call, call, expected}
	    ROW(CUBLAS_STATUS_NOT_INITIALIZED, cublasSaxpy(nullptr, 4, &one, A, 1, B, 1)),
	    ROW(CUBLAS_STATUS_NOT_INITIALIZED, cublasStrsm(nullptr, NoSide, Lower, N, Unit, -1, 4, &one, A, 4, B, 4)),
	    ROW(Good, cublasSaxpy(h, -4, &one, A, 1, B, 1)),
	    ROW(Good, cublasSaxpy(h, 4, &one, A, 0, B, 1)),
	    ROW(Bad, cublasSaxpy(h, 4, nullptr, A, 1, B, 1)),
	    ROW(Good, cublasSaxpy(h, 0, nullptr, A, 1, B, 1)),
	    ROW(Bad, cublasSnrm2(h, 4, A, 1, nullptr)),
	    ROW(Good, cublasSnrm2(h, -4, A, 1, &result)),
	    ROW(Bad, cublasIsamax(h, 4, A, 1, nullptr)),
	    ROW(Bad, cublasSdot(h, 0, A, 1, B, 1, nullptr)),
	    ROW(Bad, cublasSrotg(h, &one, nullptr, &one, &one)),
	    ROW(Bad, cublasSrotm(h, 4, A, 1, B, 1, nullptr)),
	    ROW(Bad, cublasSrotmg(h, &one, &one, &one, &one, nullptr)),
	    ROW(Bad, cublasSrot(h, 4, A, 1, B, 1, &one, nullptr)),
	    ROW(Good, cublasSgemv(h, N, 4, 4, &one, A, 4, A, 1, &one, B, 1)),
	    ROW(Bad, cublasSgemv(h, NoOp, 4, 4, &one, A, 4, A, 1, &one, B, 1)),
	    ROW(Good, cublasSgemv(h, N, -1, 4, &one, A, 4, A, 1, &one, B, 1)),
	    ROW(Good, cublasSgemv(h, N, 4, -1, &one, A, 4, A, 1, &one, B, 1)),
	    ROW(Bad, cublasSgemv(h, N, 4, 4, &one, A, 3, A, 1, &one, B, 1)),
	    ROW(Good, cublasSgemv(h, N, 0, 4, &one, A, 0, A, 1, &one, B, 1)),
	    ROW(Bad, cublasSgemv(h, N, 4, 4, &one, A, 4, A, 0, &one, B, 1)),
	    ROW(Bad, cublasSgemv(h, N, 4, 4, &one, A, 4, A, 1, &one, B, 0)),
	    ROW(Bad, cublasSgemv(h, N, 4, 4, nullptr, A, 4, A, 1, &one, B, 1)),
	    ROW(Bad, cublasSgemv(h, N, 4, 4, &one, A, 4, A, 1, nullptr, B, 1)),
	    ROW(Good, cublasSgemv(h, N, 4, 0, nullptr, A, 4, A, 1, nullptr, B, 1)),
	    ROW(Bad, cublasSgemvStridedBatched(h, N, 4, 4, &one, A, 4, 16, A, 1, 4, &one, B, 1, 4, -1)),
	    ROW(Good, cublasSgbmv(h, N, 4, 4, 1, 2, &one, A, 4, A, 1, &one, B, 1)),
	    ROW(Bad, cublasSgbmv(h, N, 4, 4, 1, 2, &one, A, 3, A, 1, &one, B, 1)),
	    ROW(Bad, cublasSgbmv(h, N, 4, 4, -1, 2, &one, A, 4, A, 1, &one, B, 1)),
	    ROW(Bad, cublasSgbmv(h, N, 4, 4, 1, -2, &one, A, 4, A, 1, &one, B, 1)),
	    ROW(Good, cublasSsbmv(h, Lower, 4, 2, &one, A, 3, A, 1, &one, B, 1)),
	    ROW(Bad, cublasSsbmv(h, Lower, 4, 2, &one, A, 2, A, 1, &one, B, 1)),
	    ROW(Bad, cublasSsbmv(h, Lower, 4, -2, &one, A, 3, A, 1, &one, B, 1)),
	    ROW(Bad, cublasSsymv(h, NoUplo, 4, &one, A, 4, A, 1, &one, B, 1)),
	    ROW(Bad, cublasSspmv(h, NoUplo, 4, &one, A, A, 1, &one, B, 1)),
	    ROW(Bad, cublasSspr(h, Lower, 4, nullptr, A, 1, B)),
	    ROW(Bad, cublasSspr(h, Lower, 4, &one, A, 0, B)),
	    ROW(Bad, cublasStrmv(h, Lower, N, NoDiag, 4, A, 4, B, 1)),
	    ROW(Bad, cublasStrsv(h, Lower, N, Unit, 4, A, 3, B, 1)),
	    ROW(Bad, cublasStpsv(h, Lower, N, Unit, -4, A, B, 1)),
	    ROW(Bad, cublasStbsv(h, Lower, N, Unit, 4, 2, A, 2, B, 1)),
	    ROW(Bad, cublasSger(h, 4, 4, &one, A, 1, A, 1, B, 3)),
	    ROW(Bad, cublasSger(h, -4, 4, &one, A, 1, A, 1, B, 4)),
	    ROW(Good, cublasSsymm(h, Left, Lower, 4, 2, &one, A, 4, A, 4, &one, B, 4)),
	    ROW(Bad, cublasSsymm(h, NoSide, Lower, 4, 2, &one, A, 4, A, 4, &one, B, 4)),
	    ROW(Bad, cublasSsymm(h, Left, Lower, 4, 2, &one, A, 3, A, 4, &one, B, 4)),
	    ROW(Good, cublasSsymm(h, Right, Lower, 4, 2, &one, A, 2, A, 4, &one, B, 4)),
	    ROW(Bad, cublasSsymm(h, Left, Lower, 4, 2, &one, A, 4, A, 3, &one, B, 4)),
	    ROW(Bad, cublasSsymm(h, Left, Lower, 4, 2, &one, A, 4, A, 4, &one, B, 3)),
	    ROW(Bad, cublasSsymm(h, Left, Lower, 4, 2, &one, A, 4, A, 4, nullptr, B, 4)),
	    ROW(Good, cublasSsyrk(h, Lower, T, 4, 2, &one, A, 2, &one, B, 4)),
	    ROW(Bad, cublasSsyrk(h, Lower, N, 4, 2, &one, A, 2, &one, B, 4)),
	    ROW(Bad, cublasSsyrk(h, Lower, T, 4, -2, &one, A, 2, &one, B, 4)),
	    ROW(Good, cublasSsyrk(h, Lower, C, 4, 2, &one, A, 2, &one, B, 4)),
	    ROW(Bad, cublasCsyrk(h, Lower, C, 4, 2, &z, Z, 2, &z, Z + 32, 4)),
	    ROW(Bad, cublasCherk(h, Lower, T, 4, 2, &one, Z, 2, &one, Z + 32, 4)),
	    ROW(Bad, cublasSsyr2k(h, Lower, N, 4, 2, &one, A, 4, A, 3, &one, B, 4)),
	    ROW(Good, cublasStrmm(h, Left, Lower, N, Unit, 4, 2, &one, A, 4, A, 4, B, 4)),
	    ROW(Bad, cublasStrmm(h, Left, Lower, N, Unit, 4, 2, &one, A, 4, A, 4, B, 3)),
	    ROW(Bad, cublasStrsm(h, Left, NoUplo, N, Unit, 4, 2, &one, A, 4, B, 4)),
	    ROW(Bad, cublasStrsm(h, Left, Lower, NoOp, Unit, 4, 2, &one, A, 4, B, 4)),
	    ROW(Bad, cublasStrsm(h, Left, Lower, N, Unit, 4, 2, nullptr, A, 4, B, 4)),
	    ROW(Good, cublasStrsm(h, Left, Lower, N, Unit, 4, 0, nullptr, A, 4, B, 4)),
	    ROW(Good, cublasSgeam(h, N, N, 4, 4, &one, A, 4, &one, A, 4, B, 4)),
	    ROW(Good, cublasSgeam(h, N, T, 4, 4, &one, B, 4, &one, A, 4, B, 4)),
	    ROW(Bad, cublasSgeam(h, T, N, 4, 4, &one, B, 4, &one, A, 4, B, 4)),
	    ROW(Bad, cublasSgeam(h, N, N, 4, 4, &one, B, 5, &one, A, 4, B, 4)),
	    ROW(Bad, cublasSgeam(h, T, N, 4, 2, &one, A, 1, &one, A, 4, B, 4)),
	    ROW(Bad, cublasSdgmm(h, NoSide, 4, 4, A, 4, A, 1, B, 4)),
	    ROW(Bad, cublasSdgmm(h, Left, 4, 4, A, 3, A, 1, B, 4)),
#undef ROW
	};
	for (const auto &row : rows) {
		INFO(row.call);
		CHECK(row.got == row.expected);
	}
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
}
