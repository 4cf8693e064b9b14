// A CUDA program that does not depend on autoamp: a few fp32 products, eager and captured, and one line about each: its
// status, the error state it left, a hash of its result. With a file of function names as argument it also prints how
// often each was called, and which of those calls were its own.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int m = 40, n = 24, k = 56, batch = 3;
constexpr size_t sizeA = size_t{m} * k, sizeB = size_t{k} * n, sizeC = size_t{m} * n;
constexpr size_t sizeResult = batch * sizeC + m; // after C, a gradient of the bias

// ---- counts of the emulated device; 0 on other devices

unsigned long calls(const char *function)
{
	static auto *const ask =
	    reinterpret_cast<unsigned long (*)(const char *)>(dlsym(RTLD_DEFAULT, "autoamp_emulated_calls"));
	return ask ? ask(function) : 0;
}

bool tellsOwn = false;

void need(const char *function, int status)
{
	if (tellsOwn)
		std::printf("own %s %lu\n", function, calls(function));
	if (status == 0)
		return;
	std::printf("stopped: %s status %d\n", function, status);
	std::exit(3);
}
#define NEED(function, ...) need(#function, function(__VA_ARGS__))

// ---- data

float *onDevice(size_t count, unsigned seed)
{
	std::vector<float> values(count);
	for (float &value : values) {
		seed = seed * 1664525u + 1013904223u;
		value = static_cast<float>(seed >> 8) / (1 << 23) - 1;
	}
	void *data = nullptr;
	NEED(cudaMalloc, &data, count * sizeof(float));
	NEED(cudaMemcpy, data, values.data(), count * sizeof(float), cudaMemcpyHostToDevice);
	return static_cast<float *>(data);
}

float *A, *B, *C, *otherC, *initialC, *bias, *mask, *gradient, *workspace;
cublasHandle_t handle;

// Restores C before each product, so that no result depends on another, and sets a pending error of the application.
void prepare()
{
	for (float *result : {C, otherC})
		NEED(cudaMemcpy, result, initialC, sizeResult * sizeof(float), cudaMemcpyDeviceToDevice);
	cudaSetDevice(99);
}

// The error state and the capture mode of this thread, which belong to the application.
struct Own {
	int error = cudaGetLastError();
	int mode = captureMode();

	static int captureMode()
	{
		cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
		NEED(cudaThreadExchangeStreamCaptureMode, &mode);
		return mode;
	}
};

void report(const char *what, int status, const float *from = C)
{
	const Own own;
	float result[sizeResult];
	NEED(cudaDeviceSynchronize);
	NEED(cudaMemcpy, result, from, sizeof result, cudaMemcpyDeviceToHost);
	uint64_t hash = 0xcbf29ce484222325;
	for (size_t i = 0; i < sizeof result; i++)
		hash = (hash ^ reinterpret_cast<unsigned char *>(result)[i]) * 0x100000001b3;
	std::printf("call %s status %d error %d mode %d hash %016llx\n", what, status, own.error, own.mode,
	            static_cast<unsigned long long>(hash));
}

// ---- products

constexpr float alpha = 1.25f, beta = 0.5f;

int sgemm(float *result = C)
{
	return cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, A, m, B, k, &beta, result, m);
}

// k is so long that parts of it are summed in a workspace.
int longSgemm()
{
	constexpr int rows = 4, columns = 3, depth = 1024;
	static_assert(rows * depth <= batch * sizeA && depth * columns <= batch * sizeB);
	return cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, rows, columns, depth, &alpha, A, rows, B, depth, &beta, C,
	                      rows);
}

void eager()
{
	for (int i = 0; i < 3; i++) {
		prepare();
		report("cublasSgemm_v2", i < 1 ? sgemm() : longSgemm());
	}
}

// A, B and C of a batch as arrays of pointers, one behind the other.
float **arraysOfPointers()
{
	const float *matrices[3 * batch];
	for (int i = 0; i < batch; i++)
		matrices[i] = A + i * sizeA, matrices[batch + i] = B + i * sizeB, matrices[2 * batch + i] = C + i * sizeC;
	float **arrays = nullptr;
	NEED(cudaMalloc, reinterpret_cast<void **>(&arrays), sizeof matrices);
	NEED(cudaMemcpy, arrays, matrices, sizeof matrices, cudaMemcpyHostToDevice);
	return arrays;
}

void light(cublasLtEpilogue_t epilogue, int times, float **arrays = nullptr)
{
	cublasLtHandle_t lightHandle;
	NEED(cublasLtCreate, &lightHandle);
	cublasLtMatmulDesc_t product;
	NEED(cublasLtMatmulDescCreate, &product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
	float *const vector = epilogue == CUBLASLT_EPILOGUE_RELU_BIAS ? bias : gradient;
	const int64_t maskLd = 128;
	NEED(cublasLtMatmulDescSetAttribute, product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
	NEED(cublasLtMatmulDescSetAttribute, product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector);
	NEED(cublasLtMatmulDescSetAttribute, product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &mask, sizeof mask);
	NEED(cublasLtMatmulDescSetAttribute, product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &maskLd, sizeof maskLd);
	cublasLtMatrixLayout_t layoutA, layoutB, layoutC;
	NEED(cublasLtMatrixLayoutCreate, &layoutA, CUDA_R_32F, m, k, m);
	NEED(cublasLtMatrixLayoutCreate, &layoutB, CUDA_R_32F, k, n, k);
	NEED(cublasLtMatrixLayoutCreate, &layoutC, CUDA_R_32F, m, n, m);
	const int32_t count = arrays ? batch : 1;
	const uint32_t mode = arrays ? CUBLASLT_BATCH_MODE_POINTER_ARRAY : CUBLASLT_BATCH_MODE_STRIDED;
	for (cublasLtMatrixLayout_t layout : {layoutA, layoutB, layoutC}) {
		NEED(cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
		NEED(cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, &mode, sizeof mode);
	}
	const auto of = [arrays](float *data, int which) {
		return arrays ? static_cast<void *>(arrays + which * batch) : data;
	};
	// Like most programs: an algorithm that the heuristic chose, without a workspace unless it needs one.
	const size_t room = epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD ? m * sizeof(float) : 0;
	cublasLtMatmulPreference_t preference;
	NEED(cublasLtMatmulPreferenceCreate, &preference);
	if (room)
		NEED(cublasLtMatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
		     sizeof room);
	cublasLtMatmulHeuristicResult_t chosen;
	int found = 0;
	NEED(cublasLtMatmulAlgoGetHeuristic, lightHandle, product, layoutA, layoutB, layoutC, layoutC, preference, 1,
	     &chosen, &found);
	for (int i = 0; i < times; i++) {
		prepare();
		report("cublasLtMatmul",
		       cublasLtMatmul(lightHandle, product, &alpha, of(A, 0), layoutA, of(B, 1), layoutB, &beta, of(C, 2),
		                      layoutC, of(C, 2), layoutC, &chosen.algo, room ? workspace : nullptr, room, nullptr));
	}
	NEED(cublasLtMatmulPreferenceDestroy, preference);
	NEED(cublasLtMatrixLayoutDestroy, layoutC);
	NEED(cublasLtMatrixLayoutDestroy, layoutB);
	NEED(cublasLtMatrixLayoutDestroy, layoutA);
	NEED(cublasLtMatmulDescDestroy, product);
	NEED(cublasLtDestroy, lightHandle);
}

void batched()
{
	for (int i = 0; i < 2; i++) {
		prepare();
		report("cublasGemmStridedBatchedEx",
		       cublasGemmStridedBatchedEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, A, CUDA_R_32F, m, sizeA, B,
		                                  CUDA_R_32F, k, sizeB, &beta, C, CUDA_R_32F, m, sizeC, batch,
		                                  CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
	}
}

void pointers()
{
	float **const arrays = arraysOfPointers();
	for (int i = 0; i < 2; i++) {
		prepare();
		report("cublasSgemmBatched", cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, arrays, m,
		                                                arrays + batch, k, &beta, arrays + 2 * batch, m, batch));
	}
	light(CUBLASLT_EPILOGUE_DEFAULT, 1, arrays);
	light(CUBLASLT_EPILOGUE_BGRADA, 1);
	const cublasOperation_t N = CUBLAS_OP_N;
	prepare();
	report("cublasSgemmGroupedBatched",
	       cublasSgemmGroupedBatched(handle, &N, &N, &m, &n, &k, &alpha, arrays, &m, arrays + batch, &k, &beta,
	                                 arrays + 2 * batch, &m, 1, &batch));
	NEED(cudaFree, arrays);
}

// Half sums of A and B, whose bits are small numbers.
void halves()
{
	std::vector<uint16_t> bits(sizeA + sizeB + 2, 0x3c00);
	for (size_t i = 0; i < bits.size() - 2; i++)
		bits[i] = static_cast<uint16_t>(0x3800 | i * 7919 % 1024);
	bits.back() = 0; // beta
	__half *data = nullptr;
	NEED(cudaMalloc, reinterpret_cast<void **>(&data), bits.size() * sizeof bits[0]);
	NEED(cudaMemcpy, data, bits.data(), bits.size() * sizeof bits[0], cudaMemcpyHostToDevice);
	const auto *const scalars = reinterpret_cast<__half *>(bits.data() + bits.size() - 2);
	for (const bool isDevice : {false, true}) {
		NEED(cublasSetPointerMode_v2, handle, isDevice ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST);
		const __half *const x = isDevice ? data + sizeA + sizeB : scalars;
		prepare();
		report("cublasHgemm", cublasHgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, x, data, m, data + sizeA, k, x + 1,
		                                  reinterpret_cast<__half *>(C), m));
	}
	NEED(cublasSetPointerMode_v2, handle, CUBLAS_POINTER_MODE_HOST);
	NEED(cudaFree, data);
}

// Convolutions of 8 channels of 6 x 6 in all directions, each twice: the first one builds its plan.
void convolutions()
{
	cudnnHandle_t dnn;
	cudnnTensorDescriptor_t image;
	cudnnFilterDescriptor_t filter;
	cudnnConvolutionDescriptor_t convolution;
	NEED(cudnnCreate, &dnn);
	NEED(cudnnCreateTensorDescriptor, &image);
	NEED(cudnnSetTensor4dDescriptor, image, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 8, 6, 6);
	NEED(cudnnCreateFilterDescriptor, &filter);
	NEED(cudnnSetFilter4dDescriptor, filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 8, 8, 3, 3);
	NEED(cudnnCreateConvolutionDescriptor, &convolution);
	NEED(cudnnSetConvolution2dDescriptor, convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
	for (int i = 0; i < 2; i++) {
		prepare();
		report("cudnnConvolutionForward",
		       cudnnConvolutionForward(dnn, &alpha, image, A, filter, B, convolution,
		                               CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &beta, image, C));
		prepare();
		report("cudnnConvolutionBackwardData",
		       cudnnConvolutionBackwardData(dnn, &alpha, filter, B, image, A, convolution,
		                                    CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0, &beta, image, C));
		prepare();
		report("cudnnConvolutionBackwardFilter",
		       cudnnConvolutionBackwardFilter(dnn, &alpha, image, A, image, B, convolution,
		                                      CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, nullptr, 0, &beta, filter, C));
	}
	NEED(cudnnDestroyConvolutionDescriptor, convolution);
	NEED(cudnnDestroyFilterDescriptor, filter);
	NEED(cudnnDestroyTensorDescriptor, image);
	NEED(cudnnDestroy, dnn);
}

// A thread that has not called any CUDA function before.
void elsewhere()
{
	prepare();
	cudaDeviceSynchronize();
	int status = 0;
	std::thread([&status] { status = sgemm(); }).join();
	report("cublasSgemm_v2", status);
}

void captured()
{
	cudaStream_t stream;
	NEED(cudaStreamCreate, &stream);
	NEED(cublasSetStream_v2, handle, stream);
	cudaSetDevice(99);
	NEED(cudaStreamBeginCapture, stream, cudaStreamCaptureModeGlobal);
	const int status = longSgemm();
	const Own own;
	NEED(cudaMemsetAsync, bias, 0, sizeof(float), stream); // a node between them
	const int other = sgemm(otherC);
	const Own otherOwn;
	cudaGraph_t graph;
	cudaGraphExec_t executable;
	NEED(cudaStreamEndCapture, stream, &graph);
	NEED(cudaGraphInstantiate, &executable, graph, 0);
	std::printf("captured cublasSgemm_v2 status %d error %d mode %d\n", status, own.error, own.mode);
	std::printf("captured cublasSgemm_v2 status %d error %d mode %d\n", other, otherOwn.error, otherOwn.mode);
	for (int i = 0; i < 2; i++) {
		prepare();
		report("replay", cudaGraphLaunch(executable, stream));
		report("other", 0, otherC);
	}
	NEED(cudaGraphExecDestroy, executable);
	NEED(cudaGraphDestroy, graph);
	NEED(cublasSetStream_v2, handle, nullptr);
	NEED(cudaStreamDestroy, stream);
	// Destructors run on a driver thread: when this one has run, the graph's memory has been released.
	static std::atomic<bool> isGone{false};
	cudaUserObject_t object;
	NEED(
	    cudaUserObjectCreate, &object, nullptr, [](void *) { isGone = true; }, 1, cudaUserObjectNoDestructorSync);
	NEED(cudaUserObjectRelease, object, 1);
	while (!isGone)
		std::this_thread::yield();
	prepare();
	report("cublasSgemm_v2", longSgemm()); // the graph's memory is released here
}

} // namespace

int main(int argc, char **argv)
{
	tellsOwn = argc > 1;
	NEED(cublasCreate_v2, &handle);
	A = onDevice(batch * sizeA, 1);
	B = onDevice(batch * sizeB, 2);
	C = onDevice(sizeResult, 3);
	gradient = C + batch * sizeC;
	otherC = onDevice(sizeResult, 3);
	initialC = onDevice(sizeResult, 4);
	bias = onDevice(m, 5);
	workspace = onDevice(m, 7);
	mask = onDevice(128 / 32 * n, 6);
	eager();
	light(CUBLASLT_EPILOGUE_RELU_BIAS, 2);
	light(CUBLASLT_EPILOGUE_DRELU_BGRAD, 1);
	batched();
	if (!std::getenv("WITHOUT_ARRAYS")) {
		pointers();
		halves();
		convolutions();
	}
	elsewhere();
	captured();
	NEED(cublasDestroy_v2, handle);
	if (argc > 1) {
		std::ifstream names(argv[1]);
		for (std::string name; names >> name;)
			if (const unsigned long count = calls(name.c_str()))
				std::printf("count %s %lu\n", name.c_str(), count);
	}
	return 0;
}
