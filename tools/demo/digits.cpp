// Trains a classifier of handwritten digits in fp32 with plain cuBLAS and cuBLASLt calls. The demo stands for a program
// that cannot be changed: it does not use autoamp's headers or libraries. One thread, one stream.
//
//   digits [DATA.csv]     each line: 64 pixels (0..16) and the label; default: digits.csv next to the program
//
// 64 -> 1024 -> 1024 -> 10, ReLU, softmax, plain SGD. All matrices are column-major, with one image per column.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr int pixels = 64, classes = 10, hidden = 1024;
constexpr int batch = 240, epochs = 20, reportEvery = 5;
constexpr float learningRate = 0.2f;
constexpr size_t workspaceSize = 4 << 20;

[[noreturn]] void fail(const std::string &message)
{
	std::fprintf(stderr, "digits: %s\n", message.c_str());
	std::exit(1);
}

void check(cudaError_t status, const char *what)
{
	if (status != cudaSuccess)
		fail(std::string(what) + ": " + cudaGetErrorString(status));
}

void check(cublasStatus_t status, const char *what)
{
	if (status != CUBLAS_STATUS_SUCCESS)
		fail(std::string(what) + ": " + cublasGetStatusString(status));
}

#define CHECK(call) check(call, #call)

// Device memory, or pinned host memory that asynchronous copies may use.
template <cudaError_t (*allocate)(void **, size_t), cudaError_t (*release)(void *)>
class Buffer
{
public:
	explicit Buffer(size_t count) { CHECK(allocate(reinterpret_cast<void **>(&data_), count * sizeof(float))); }
	Buffer(const Buffer &) = delete;
	~Buffer() { release(data_); }
	operator float *() const { return data_; }

private:
	float *data_ = nullptr;
};
using DeviceArray = Buffer<cudaMalloc, cudaFree>;
using PinnedArray = Buffer<cudaMallocHost, cudaFreeHost>;

struct Samples {
	std::vector<float> images; // pixels x count
	std::vector<int> labels;
	int count() const { return static_cast<int>(labels.size()); }
};

// Every fifth image is reserved for the test.
std::pair<Samples, Samples> readSamples(const std::filesystem::path &path)
{
	std::ifstream file(path);
	if (!file)
		fail("cannot read " + path.string());
	Samples train, test;
	std::string line;
	for (int row = 0; std::getline(file, line); ++row) {
		Samples &samples = row % 5 == 4 ? test : train;
		const char *text = line.c_str();
		for (int column = 0; column <= pixels; ++column) {
			char *end;
			const long value = std::strtol(text, &end, 10);
			if (end == text || *end != (column < pixels ? ',' : '\0') || value < 0 ||
			    value > (column < pixels ? 16 : 9))
				fail(path.string() + ":" + std::to_string(row + 1) + ": not 64 pixels (0..16) and a label (0..9)");
			if (column < pixels)
				samples.images.push_back(static_cast<float>(value) / 16);
			else
				samples.labels.push_back(static_cast<int>(value));
			text = end + 1;
		}
	}
	if (train.count() < batch || test.count() == 0)
		fail(path.string() + ": too few images");
	return {std::move(train), std::move(test)};
}

// The same numbers on every system: the distributions of the standard library differ between implementations.
class Random
{
public:
	float uniform(float limit) { return limit * (2 * static_cast<float>(engine_() >> 8) / 16777216.0f - 1); }
	void shuffle(std::vector<int> &values)
	{
		for (size_t i = values.size(); i > 1; --i)
			std::swap(values[i - 1], values[engine_() % i]);
	}

private:
	std::mt19937 engine_{1};
};

struct Device {
	cudaStream_t stream;
	cublasHandle_t blas;
	cublasLtHandle_t lt;
	float *workspace;

	void upload(float *target, const float *source, size_t count) const
	{
		CHECK(cudaMemcpyAsync(target, source, count * sizeof(float), cudaMemcpyHostToDevice, stream));
	}
	void download(float *target, const float *source, size_t count) const
	{
		CHECK(cudaMemcpyAsync(target, source, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
	}
	void wait() const { CHECK(cudaStreamSynchronize(stream)); }
};

// The forward product of a layer for a fixed number of images: epilogue(W X + b). cuBLASLt selects its algorithm once.
class ForwardProduct
{
public:
	ForwardProduct(const Device &device, int outputs, int inputs, int columns, cublasLtEpilogue_t epilogue,
	               const float *bias)
	{
		CHECK(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
		set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
		set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
		CHECK(cublasLtMatrixLayoutCreate(&weights_, CUDA_R_32F, outputs, inputs, outputs));
		CHECK(cublasLtMatrixLayoutCreate(&input_, CUDA_R_32F, inputs, columns, inputs));
		CHECK(cublasLtMatrixLayoutCreate(&output_, CUDA_R_32F, outputs, columns, outputs));

		cublasLtMatmulPreference_t preference;
		CHECK(cublasLtMatmulPreferenceCreate(&preference));
		CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspaceSize,
		                                           sizeof(workspaceSize)));
		int found = 0;
		CHECK(cublasLtMatmulAlgoGetHeuristic(device.lt, operation_, weights_, input_, output_, output_, preference, 1,
		                                     &choice_, &found));
		CHECK(cublasLtMatmulPreferenceDestroy(preference));
		if (found == 0)
			fail("cublasLtMatmulAlgoGetHeuristic: no algorithm");
	}
	ForwardProduct(const ForwardProduct &) = delete;
	~ForwardProduct()
	{
		cublasLtMatrixLayoutDestroy(output_);
		cublasLtMatrixLayoutDestroy(input_);
		cublasLtMatrixLayoutDestroy(weights_);
		cublasLtMatmulDescDestroy(operation_);
	}

	void run(const Device &device, const float *weights, const float *input, float *output) const
	{
		const float one = 1, zero = 0;
		CHECK(cublasLtMatmul(device.lt, operation_, &one, weights, weights_, input, input_, &zero, output, output_,
		                     output, output_, &choice_.algo, device.workspace, workspaceSize, device.stream));
	}

private:
	template <typename T>
	void set(cublasLtMatmulDescAttributes_t attribute, const T &value)
	{
		CHECK(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof(value)));
	}

	cublasLtMatmulDesc_t operation_;
	cublasLtMatrixLayout_t weights_, input_, output_;
	cublasLtMatmulHeuristicResult_t choice_;
};

class Layer
{
public:
	Layer(const Device &device, Random &random, int inputs, int outputs, bool isLast, int testCount)
	    : device_(device), inputs_(inputs), outputs_(outputs), isLast_(isLast), weights_(size_t(outputs) * inputs),
	      bias_(outputs), output_(size_t(outputs) * std::max(batch, testCount)), gradient_(size_t(outputs) * batch),
	      training_(device, outputs, inputs, batch, epilogue(), bias_),
	      testing_(device, outputs, inputs, testCount, epilogue(), bias_), hostOutput_(size_t(outputs) * batch),
	      hostGradient_(size_t(outputs) * batch)
	{
		std::vector<float> weights(size_t(outputs) * inputs);
		for (float &weight : weights)
			weight = random.uniform(std::sqrt(6.0f / static_cast<float>(inputs)));
		CHECK(cublasSetMatrix(outputs, inputs, sizeof(float), weights.data(), outputs, weights_, outputs));
		CHECK(cudaMemset(bias_, 0, outputs * sizeof(float)));
	}

	const float *forward(const float *input, bool isTraining)
	{
		(isTraining ? training_ : testing_).run(device_, weights_, input, output_);
		return output_;
	}

	float *gradient() const { return gradient_; }

	// The backward pass of this layer, then one step of descent. Reads the gradient of the output; writes that of the
	// input unless inputGradient is null.
	void backward(const float *input, const float *ones, float *inputGradient)
	{
		const float one = 1, zero = 0, step = -learningRate;
		if (!isLast_)
			undoRelu();
		if (inputGradient != nullptr)
			CHECK(cublasSgemm(device_.blas, CUBLAS_OP_T, CUBLAS_OP_N, inputs_, batch, outputs_, &one, weights_,
			                  outputs_, gradient_, outputs_, &zero, inputGradient, inputs_));
		CHECK(cublasSgemm(device_.blas, CUBLAS_OP_N, CUBLAS_OP_T, outputs_, inputs_, batch, &step, gradient_, outputs_,
		                  input, inputs_, &one, weights_, outputs_));
		CHECK(cublasGemmEx(device_.blas, CUBLAS_OP_N, CUBLAS_OP_N, outputs_, 1, batch, &step, gradient_, CUDA_R_32F,
		                   outputs_, ones, CUDA_R_32F, batch, &one, bias_, CUDA_R_32F, outputs_, CUBLAS_COMPUTE_32F,
		                   CUBLAS_GEMM_DEFAULT));
	}

private:
	cublasLtEpilogue_t epilogue() const { return isLast_ ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_RELU_BIAS; }

	// Runs on the host, because the program has no kernels.
	void undoRelu()
	{
		const size_t count = size_t(outputs_) * batch;
		device_.download(hostOutput_, output_, count);
		device_.download(hostGradient_, gradient_, count);
		device_.wait();
		for (size_t i = 0; i < count; ++i)
			if (!(hostOutput_[i] > 0))
				hostGradient_[i] = 0;
		device_.upload(gradient_, hostGradient_, count);
	}

	const Device &device_;
	const int inputs_, outputs_;
	const bool isLast_;
	DeviceArray weights_, bias_, output_, gradient_;
	ForwardProduct training_, testing_;
	PinnedArray hostOutput_, hostGradient_;
};

// Softmax and cross entropy of one image. Replaces the scores by their gradient.
float crossEntropy(float *scores, int label)
{
	const float largest = *std::max_element(scores, scores + classes);
	float sum = 0;
	for (int i = 0; i < classes; ++i)
		sum += scores[i] = std::exp(scores[i] - largest);
	const float loss = -std::log(scores[label] / sum);
	for (int i = 0; i < classes; ++i)
		scores[i] = (scores[i] / sum - (i == label ? 1.0f : 0.0f)) / batch;
	return loss;
}

void run(const std::filesystem::path &path)
{
	const auto [train, test] = readSamples(path);
	const int columns = std::max(batch, test.count());

	cudaDeviceProp properties;
	CHECK(cudaGetDeviceProperties(&properties, 0));
	std::printf("device: %s\n", properties.name);

	Device device;
	CHECK(cudaStreamCreate(&device.stream));
	CHECK(cublasCreate(&device.blas));
	CHECK(cublasSetStream(device.blas, device.stream));
	CHECK(cublasLtCreate(&device.lt));
	DeviceArray workspace(workspaceSize / sizeof(float));
	device.workspace = workspace;
	{
		Random random;
		Layer first(device, random, pixels, hidden, false, test.count());
		Layer second(device, random, hidden, hidden, false, test.count());
		Layer last(device, random, hidden, classes, true, test.count());
		DeviceArray images(size_t(pixels) * columns), ones(batch);
		PinnedArray hostImages(size_t(pixels) * columns), scores(size_t(classes) * columns);

		const auto forward = [&](int count, bool isTraining) {
			device.upload(images, hostImages, size_t(pixels) * count);
			const float *x = first.forward(images, isTraining);
			const float *y = second.forward(x, isTraining);
			const float *z = last.forward(y, isTraining);
			device.download(scores, z, size_t(classes) * count);
			device.wait();
			return std::pair{x, y};
		};

		const std::vector<float> hostOnes(batch, 1.0f);
		CHECK(cublasSetVector(batch, sizeof(float), hostOnes.data(), 1, ones, 1));
		std::vector<int> order(train.count());
		for (int i = 0; i < train.count(); ++i)
			order[i] = i;

		for (int epoch = 1; epoch <= epochs; ++epoch) {
			random.shuffle(order);
			double loss = 0;
			const int batches = train.count() / batch;
			for (int start = 0; start < batches * batch; start += batch) {
				for (int i = 0; i < batch; ++i)
					std::copy_n(&train.images[size_t(pixels) * order[start + i]], pixels, hostImages + pixels * i);
				const auto [x, y] = forward(batch, true);
				for (int i = 0; i < batch; ++i)
					loss += crossEntropy(scores + classes * i, train.labels[order[start + i]]);
				device.upload(last.gradient(), scores, size_t(classes) * batch);
				last.backward(y, ones, second.gradient());
				second.backward(x, ones, first.gradient());
				first.backward(images, ones, nullptr);
			}
			if (epoch % reportEvery == 0)
				std::printf("epoch %2d  loss %.4f\n", epoch, loss / (batches * batch));
		}

		std::copy(test.images.begin(), test.images.end(), static_cast<float *>(hostImages));
		forward(test.count(), false);
		int right = 0;
		for (int i = 0; i < test.count(); ++i) {
			const float *score = scores + classes * i;
			right += std::max_element(score, score + classes) - score == test.labels[i];
		}
		std::printf("test accuracy %.1f %%\n", 100.0 * right / test.count());
	}
	CHECK(cublasLtDestroy(device.lt));
	CHECK(cublasDestroy(device.blas));
	CHECK(cudaStreamDestroy(device.stream));
}

} // namespace

int main(int argc, char **argv)
{
	if (argc > 2)
		fail("usage: digits [DATA.csv]");
	run(argc == 2 ? std::filesystem::path(argv[1])
	              : std::filesystem::read_symlink("/proc/self/exe").parent_path() / "digits.csv");
	return 0;
}
