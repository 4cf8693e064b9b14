// Small cuDNN clients, each correct or with one error, like those of tests/emulated/controls.cpp.
#include "tests/emulated/controls.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <vector>

namespace {

bool failed = false;

// A call that must succeed; every library uses 0 for success.
void ok(int status)
{
	failed |= status != 0;
}

template <typename T = float>
T *device(const std::vector<float> &values)
{
	T *out = nullptr;
	ok(cudaMalloc(reinterpret_cast<void **>(&out), values.size() * sizeof(float)));
	ok(cudaMemcpy(out, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
	return out;
}

constexpr float one = 1, zero = 0;
constexpr int image = 2 * 3 * 4 * 4, filter = 5 * 3 * 3 * 3, result = 2 * 5 * 4 * 4;

std::vector<float> counted(int size)
{
	std::vector<float> values(size);
	for (int i = 0; i < size; ++i)
		values[i] = static_cast<float>(i % 7);
	return values;
}

// One convolution of small integers on a separate stream; y is not initialised.
struct Client {
	cudnnHandle_t handle = nullptr;
	cudaStream_t stream = nullptr;
	cudnnTensorDescriptor_t x, y;
	cudnnFilterDescriptor_t w;
	cudnnConvolutionDescriptor_t convolution;
	cudnnConvolutionFwdAlgo_t algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
	float *xs = device(counted(image)), *ws = device(counted(filter)), *ys = nullptr;
	void *workspace = nullptr;
	size_t bytes = 0;

	Client()
	{
		ok(cudnnCreate(&handle));
		ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
		ok(cudnnSetStream(handle, stream));
		ok(cudnnCreateTensorDescriptor(&x));
		ok(cudnnCreateTensorDescriptor(&y));
		ok(cudnnCreateFilterDescriptor(&w));
		ok(cudnnCreateConvolutionDescriptor(&convolution));
		ok(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 4, 4));
		ok(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 5, 4, 4));
		ok(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 5, 3, 3, 3));
		ok(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
		ok(cudaMalloc(reinterpret_cast<void **>(&ys), result * sizeof(float)));
		ok(cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, convolution, y, algorithm, &bytes));
		ok(cudaMalloc(&workspace, bytes));
	}
	void convolve(const float *from, const float *beta = &zero, const float *alpha = &one) const
	{
		ok(cudnnConvolutionForward(handle, alpha, x, from, w, ws, convolution, algorithm, workspace, bytes, beta, y,
		                           ys));
	}
	// Returns whether y is `factor` times the result of these integers, which every rounding leaves unchanged.
	bool holds(float factor = 1) const
	{
		std::vector<float> values(result), xHost = counted(image), wHost = counted(filter);
		ok(cudaStreamSynchronize(stream));
		ok(cudaMemcpy(values.data(), ys, result * sizeof(float), cudaMemcpyDeviceToHost));
		return matches(values, factor);
	}
	static bool matches(const std::vector<float> &values, float factor)
	{
		const std::vector<float> xHost = counted(image), wHost = counted(filter);
		for (int i = 0; i < result; ++i) {
			const int n = i / 80, k = i / 16 % 5, h = i / 4 % 4, v = i % 4;
			float sum = 0;
			for (int c = 0; c < 3; ++c)
				for (int r = 0; r < 3; ++r)
					for (int s = 0; s < 3; ++s)
						if (h + r >= 1 && h + r < 5 && v + s >= 1 && v + s < 5)
							sum += xHost[((n * 3 + c) * 4 + h + r - 1) * 4 + v + s - 1] *
							       wHost[((k * 3 + c) * 3 + r) * 3 + s];
			if (values[i] != factor * sum)
				return false;
		}
		return true;
	}
};

bool passesHostMemory(bool right)
{
	Client client;
	const std::vector<float> host = counted(image);
	client.convolve(right ? client.xs : host.data());
	return client.holds();
}

bool readsWithoutWaiting(bool right)
{
	Client client;
	float *values = nullptr; // pinned: the copy does not wait
	ok(cudaMallocHost(reinterpret_cast<void **>(&values), result * sizeof(float)));
	client.convolve(client.xs);
	cudaStream_t other;
	ok(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	ok(cudaMemcpyAsync(values, client.ys, result * sizeof(float), cudaMemcpyDeviceToHost,
	                   right ? client.stream : other));
	ok(cudaStreamSynchronize(right ? client.stream : other));
	return Client::matches({values, values + result}, 1);
}

bool addsToNothing(bool right)
{
	Client client;
	client.convolve(client.xs, right ? &zero : &one); // y holds NaN
	return client.holds();
}

bool bringsTooSmallWorkspace(bool right)
{
	Client client;
	client.algorithm = CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED; // runs only with its workspace
	ok(cudnnGetConvolutionForwardWorkspaceSize(client.handle, client.x, client.w, client.convolution, client.y,
	                                           client.algorithm, &client.bytes));
	ok(cudaFree(client.workspace));
	ok(cudaMalloc(&client.workspace, client.bytes));
	client.bytes -= !right;
	client.convolve(client.xs);
	return client.holds();
}

bool keepsDataInWorkspace(bool right)
{
	Client client;
	ok(cudaFree(client.workspace));
	client.workspace = right ? device<void>(counted(image)) : client.xs;
	client.convolve(client.xs);
	client.convolve(client.xs);
	return client.holds();
}

bool mixesTypes(bool right)
{
	Client client;
	if (!right)
		ok(cudnnSetTensor4dDescriptor(client.y, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 2, 5, 4, 4));
	client.convolve(client.xs);
	return client.holds();
}

bool mixesLayouts(bool right)
{
	Client client;
	ok(cudnnSetTensor4dDescriptor(client.x, right ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, 2, 3, 4,
	                              4));
	client.convolve(client.xs);
	return client.holds();
}

bool usesFreedMemory(bool right)
{
	Client client;
	float *copy = device(counted(image));
	if (!right)
		ok(cudaFree(copy));
	client.convolve(copy);
	return client.holds();
}

bool freesBeforeItRan(bool right)
{
	Client client;
	float *copy = nullptr;
	cudaStream_t other;
	ok(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	ok(cudaMallocAsync(reinterpret_cast<void **>(&copy), image * sizeof(float), client.stream));
	ok(cudaMemcpyAsync(copy, client.xs, image * sizeof(float), cudaMemcpyDeviceToDevice, client.stream));
	ok(cudaStreamSynchronize(client.stream));
	if (!right)
		ok(cudaFreeAsync(copy, other));
	client.convolve(copy);
	return client.holds();
}

bool endsBehindItsMemory(bool right)
{
	Client client;
	std::vector<float> values = counted(image);
	values.resize(image - !right);
	client.convolve(device(values));
	return client.holds();
}

bool searchesInCapture(bool right)
{
	Client client;
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t ready = nullptr;
	cudnnConvolutionFwdAlgoPerf_t best;
	int count = 0;
	ok(cudaStreamBeginCapture(client.stream, cudaStreamCaptureModeGlobal));
	auto *search = right ? cudnnGetConvolutionForwardAlgorithm_v7 : cudnnFindConvolutionForwardAlgorithm;
	ok(search(client.handle, client.x, client.w, client.convolution, client.y, 1, &count, &best));
	client.convolve(client.xs);
	ok(cudaStreamEndCapture(client.stream, &graph));
	if (failed)
		return false;
	ok(cudaGraphInstantiate(&ready, graph, 0));
	ok(cudaGraphLaunch(ready, client.stream));
	return client.holds();
}

bool changesScalarOfGraph(bool right)
{
	Client client;
	cudaGraph_t graph;
	cudaGraphExec_t ready;
	float alpha = 1;
	for (float next : {1.f, 2.f}) {
		if (next == 1 || right) {
			alpha = next;
			ok(cudaStreamBeginCapture(client.stream, cudaStreamCaptureModeGlobal));
			client.convolve(client.xs, &zero, &alpha);
			ok(cudaStreamEndCapture(client.stream, &graph));
			ok(cudaGraphInstantiate(&ready, graph, 0));
		}
		alpha = next;
		ok(cudaGraphLaunch(ready, client.stream));
	}
	return client.holds(2);
}

bool usesDestroyedHandle(bool right)
{
	Client client;
	if (!right)
		ok(cudnnDestroy(client.handle));
	client.convolve(client.xs);
	return client.holds();
}

bool usesAnotherDevice(bool right)
{
	Client client;
	if (!right)
		ok(cudaSetDevice(1));
	client.convolve(client.xs);
	return client.holds();
}

bool keepsDropoutStatesOnHost(bool right)
{
	Client client;
	cudnnDropoutDescriptor_t dropout;
	size_t bytes = 0;
	ok(cudnnCreateDropoutDescriptor(&dropout));
	ok(cudnnDropoutGetStatesSize(client.handle, &bytes));
	std::vector<float> host(bytes / sizeof(float));
	ok(cudnnSetDropoutDescriptor(dropout, client.handle, .5f, right ? device(host) : host.data(), bytes, 1));
	ok(cudaStreamSynchronize(client.stream));
	return true;
}

struct {
	const char *name;
	bool (*run)(bool right);
} const clients[] = {
    CONTROL(passesHostMemory),
    CONTROL(readsWithoutWaiting),
    CONTROL(addsToNothing),
    CONTROL(bringsTooSmallWorkspace),
    CONTROL(keepsDataInWorkspace),
    CONTROL(mixesTypes),
    CONTROL(mixesLayouts),
    CONTROL(usesFreedMemory),
    CONTROL(freesBeforeItRan),
    CONTROL(endsBehindItsMemory),
    CONTROL(searchesInCapture),
    CONTROL(changesScalarOfGraph),
    CONTROL(usesDestroyedHandle),
    CONTROL(usesAnotherDevice),
    CONTROL(keepsDropoutStatesOnHost),
};

} // namespace

int main(int argc, char **argv)
{
	return runControl(argc, argv, clients, [](const auto &row, bool isRight) { return row.run(isRight) && !failed; });
}
