// Products and convolutions of small integers, as tests/oracle/rounded.py computes them in torch. One case per line,
// with all elements of the result: rounded NAME OPERATION M N K MOST POWER. Matrices are stored by rows.
#include "harness.h"

#include <cudnn.h>

#include <cstdlib>
#include <cstring>

using namespace client;

namespace {

std::vector<float> values(uint64_t seed, size_t count, int64_t most, int power)
{
	std::vector<float> made;
	for (uint64_t state = seed; made.size() < count;) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		const auto integer = static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(2 * most + 1)) - most;
		made.push_back(std::ldexp(static_cast<float>(integer), power));
	}
	return made;
}

class Device
{
public:
	explicit Device(const std::vector<float> &data) : count_(data.size())
	{
		CHECK(cudaMalloc(reinterpret_cast<void **>(&data_), count_ * sizeof(float)));
		CHECK(cudaMemcpy(data_, data.data(), count_ * sizeof(float), cudaMemcpyHostToDevice));
	}
	~Device() { cudaFree(data_); }
	Device(const Device &) = delete;
	operator float *() const { return data_; }
	std::vector<float> read() const
	{
		std::vector<float> data(count_);
		CHECK(cudaDeviceSynchronize());
		CHECK(cudaMemcpy(data.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost));
		return data;
	}

private:
	float *data_ = nullptr;
	size_t count_;
};

void require(cudnnStatus_t status)
{
	if (status)
		fail("cudnn", cudnnGetErrorString(status));
}

struct Task {
	std::string operation;
	int m, n, k, most, power;
};

std::vector<float> multiplied(const Task &task)
{
	const auto &[operation, m, n, k, most, power] = task;
	const bool hasSource = operation == "addmm", isBatch = operation != "mm" && !hasSource;
	const int batch = isBatch ? 3 : 1;
	const auto size = [batch](int rows, int columns) { return static_cast<size_t>(batch) * rows * columns; };
	const Device a(values(1, size(m, k), most, power)), b(values(2, size(k, n), most, power));
	const Device c(hasSource ? values(3, size(m, n), most, power) : std::vector<float>(size(m, n)));
	const float one = 1, beta = hasSource ? 1 : 0;
	cublasHandle_t handle = nullptr;
	CHECK(cublasCreate(&handle));
	if (operation == "bmm_pointers") {
		std::vector<float *> pointers;
		for (const auto &[base, step] : {std::pair(+b, k * n), std::pair(+a, m * k), std::pair(+c, m * n)})
			for (int i = 0; i < batch; i++)
				pointers.push_back(base + i * step);
		float **onDevice = nullptr;
		CHECK(cudaMalloc(reinterpret_cast<void **>(&onDevice), pointers.size() * sizeof(float *)));
		CHECK(cudaMemcpy(onDevice, pointers.data(), pointers.size() * sizeof(float *), cudaMemcpyHostToDevice));
		CHECK(cublasSgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, onDevice, n, onDevice + batch, k,
		                         &beta, onDevice + 2 * batch, n, batch));
		CHECK(cudaDeviceSynchronize());
		CHECK(cudaFree(onDevice));
	} else if (isBatch) {
		CHECK(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b, n, k * n, a, k, m * k,
		                                &beta, c, n, m * n, batch));
	} else {
		CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, m, k, &one, b, n, a, k, &beta, c, n));
	}
	std::vector<float> result = c.read();
	CHECK(cublasDestroy(handle));
	return result;
}

std::vector<float> convolved(const Task &task)
{
	const auto &[operation, m, n, k, most, power] = task;
	const int images = 2, size = images * n * n;
	const bool isData = operation == "conv2d_data", isFilter = operation == "conv2d_filter";
	const size_t counts[] = {static_cast<size_t>(size) * m, static_cast<size_t>(k) * m * 9,
	                         static_cast<size_t>(size) * k};
	const Device x(values(1, counts[0], most, power)), w(values(2, counts[1], most, power));
	const Device y(isData || isFilter ? values(3, counts[2], most, power) : std::vector<float>(counts[2]));
	const Device dx(std::vector<float>(counts[0], 7)), dw(std::vector<float>(counts[1], 7));
	cudnnHandle_t handle = nullptr;
	cudnnTensorDescriptor_t xDesc = nullptr, yDesc = nullptr;
	cudnnFilterDescriptor_t wDesc = nullptr;
	cudnnConvolutionDescriptor_t how = nullptr;
	require(cudnnCreate(&handle));
	require(cudnnCreateTensorDescriptor(&xDesc)), require(cudnnCreateTensorDescriptor(&yDesc));
	require(cudnnCreateFilterDescriptor(&wDesc)), require(cudnnCreateConvolutionDescriptor(&how));
	require(cudnnSetTensor4dDescriptor(xDesc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, images, m, n, n));
	require(cudnnSetTensor4dDescriptor(yDesc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, images, k, n, n));
	require(cudnnSetFilter4dDescriptor(wDesc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, k, m, 3, 3));
	require(cudnnSetConvolution2dDescriptor(how, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
	const float one = 1, zero = 0;
	const size_t room = 16 << 20;
	void *workspace = nullptr;
	CHECK(cudaMalloc(&workspace, room));
	if (isData)
		require(cudnnConvolutionBackwardData(handle, &one, wDesc, w, yDesc, y, how, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1,
		                                     workspace, room, &zero, xDesc, dx));
	else if (isFilter)
		require(cudnnConvolutionBackwardFilter(handle, &one, xDesc, x, yDesc, y, how,
		                                       CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace, room, &zero, wDesc, dw));
	else
		require(cudnnConvolutionForward(handle, &one, xDesc, x, wDesc, w, how,
		                                CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, workspace, room, &zero, yDesc,
		                                y));
	std::vector<float> result = (isData ? dx : isFilter ? dw : y).read();
	CHECK(cudaFree(workspace));
	require(cudnnDestroyConvolutionDescriptor(how)), require(cudnnDestroyFilterDescriptor(wDesc));
	require(cudnnDestroyTensorDescriptor(xDesc)), require(cudnnDestroyTensorDescriptor(yDesc));
	require(cudnnDestroy(handle));
	return result;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 8)
		return 2;
	const auto number = [argv](int i) { return std::atoi(argv[i]); };
	const Task task = {argv[2], number(3), number(4), number(5), number(6), number(7)};
	const bool isConvolution = task.operation.starts_with("conv2d");
	std::printf("%s bits=", argv[1]);
	for (const float value : isConvolution ? convolved(task) : multiplied(task)) {
		uint32_t bits;
		std::memcpy(&bits, &value, sizeof bits);
		std::printf("%08x", bits);
	}
	std::printf("\n");
	return 0;
}
