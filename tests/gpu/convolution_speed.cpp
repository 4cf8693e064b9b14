// convolution_speed: times legacy cuDNN convolutions in one process, interleaved. Each line of standard input is a
// request:
//   forward|data|filter IMAGES CHANNELS SIZE FILTERS KERNEL STRIDE ROUNDS WAY...
// Images and filters are square, the padding is half the kernel. fp32 tensors are NCHW; those in half, for the way
// bare_half, are NHWC. The application takes the first algorithm from the heuristics. It prints a line for each way
// and round, then `done`.
#include "tests/gpu/ways.h"
#include "tests/preload/clients/dnn.h"

namespace {

using namespace client;
using gpu::Precision;
using gpu::Way;

constexpr size_t mostWorkspace = 1u << 30;
constexpr const char *cudnn = "libcudnn.so.9";

struct Functions {
	decltype(cudnnConvolutionForward) *forward;
	decltype(cudnnConvolutionBackwardData) *data;
	decltype(cudnnConvolutionBackwardFilter) *filter;
};
const Functions linked = {cudnnConvolutionForward, cudnnConvolutionBackwardData, cudnnConvolutionBackwardFilter};

struct Geometry {
	std::string direction;
	int images = 0, channels = 0, size = 0, filters = 0, kernel = 0, stride = 0;
	int result() const { return (size + 2 * (kernel / 2) - kernel) / stride + 1; }
	size_t x() const { return size_t(images) * channels * size * size; }
	size_t w() const { return size_t(filters) * channels * kernel * kernel; }
	size_t y() const { return size_t(images) * filters * result() * result(); }
};

// The descriptors of a convolution in one precision, and its algorithm.
class Convolution
{
public:
	Convolution(cudnnHandle_t handle, const Geometry &geometry, Precision precision) : geometry(geometry)
	{
		const bool isHalf = precision == Precision::half;
		const auto type = isHalf ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
		const auto format = isHalf ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
		DNN(cudnnCreateTensorDescriptor(&x));
		DNN(cudnnCreateTensorDescriptor(&y));
		DNN(cudnnCreateFilterDescriptor(&w));
		DNN(cudnnCreateConvolutionDescriptor(&convolution));
		DNN(cudnnSetTensor4dDescriptor(x, format, type, geometry.images, geometry.channels, geometry.size,
		                               geometry.size));
		DNN(cudnnSetTensor4dDescriptor(y, format, type, geometry.images, geometry.filters, geometry.result(),
		                               geometry.result()));
		DNN(cudnnSetFilter4dDescriptor(w, type, format, geometry.filters, geometry.channels, geometry.kernel,
		                               geometry.kernel));
		const int padding = geometry.kernel / 2;
		DNN(cudnnSetConvolution2dDescriptor(convolution, padding, padding, geometry.stride, geometry.stride, 1, 1,
		                                    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
		DNN(cudnnSetConvolutionMathType(convolution, precision == Precision::fp32   ? CUDNN_FMA_MATH
		                                             : precision == Precision::tf32 ? CUDNN_DEFAULT_MATH
		                                                                            : CUDNN_TENSOR_OP_MATH));
		if (geometry.direction == "forward")
			forward = first<cudnnConvolutionFwdAlgoPerf_t>([&](auto... rest) {
				return cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, convolution, y, rest...);
			});
		else if (geometry.direction == "data")
			data = first<cudnnConvolutionBwdDataAlgoPerf_t>([&](auto... rest) {
				return cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w, y, convolution, x, rest...);
			});
		else
			filter = first<cudnnConvolutionBwdFilterAlgoPerf_t>([&](auto... rest) {
				return cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x, y, convolution, w, rest...);
			});
	}

	~Convolution()
	{
		cudnnDestroyConvolutionDescriptor(convolution);
		cudnnDestroyFilterDescriptor(w);
		cudnnDestroyTensorDescriptor(x);
		cudnnDestroyTensorDescriptor(y);
	}
	Convolution(const Convolution &) = delete;

	void enqueue(cudnnHandle_t handle, const Functions &call, float *xs, float *ws, float *ys, void *workspace) const
	{
		const float one = 1, zero = 0;
		if (geometry.direction == "forward")
			DNN(call.forward(handle, &one, x, xs, w, ws, convolution, forward.algo, workspace, bytes, &zero, y, ys));
		else if (geometry.direction == "data")
			DNN(call.data(handle, &one, w, ws, y, ys, convolution, data.algo, workspace, bytes, &zero, x, xs));
		else
			DNN(call.filter(handle, &one, x, xs, y, ys, convolution, filter.algo, workspace, bytes, &zero, w, ws));
	}

private:
	// The heuristics' first algorithm that needs no more memory than there is.
	template <typename Found, typename Ask>
	Found first(Ask ask)
	{
		Found found[8];
		int count = 0;
		DNN(ask(8, &count, found));
		for (int i = 0; i < count; i++)
			if (found[i].status == CUDNN_STATUS_SUCCESS && found[i].memory <= mostWorkspace) {
				bytes = found[i].memory;
				return found[i];
			}
		fail("algorithm", "none was found");
	}

	const Geometry geometry;
	cudnnTensorDescriptor_t x = nullptr, y = nullptr;
	cudnnFilterDescriptor_t w = nullptr;
	cudnnConvolutionDescriptor_t convolution = nullptr;
	cudnnConvolutionFwdAlgoPerf_t forward = {};
	cudnnConvolutionBwdDataAlgoPerf_t data = {};
	cudnnConvolutionBwdFilterAlgoPerf_t filter = {};
	size_t bytes = 0;
};

void measure(DnnSession &session, void *workspace, const Functions &bare, const Geometry &geometry, int rounds,
             const std::vector<std::string> &names)
{
	std::unique_ptr<Convolution> convolutions[3];
	// autoamp keeps calls with CUDNN_FMA_MATH, so the program that it lowers has cuDNN's default.
	const auto precisionOf = [](const Way &way) { return way.isBare ? way.precision : Precision::tf32; };
	for (const auto &name : names) {
		const Precision precision = precisionOf(gpu::wayOf(name));
		auto &convolution = convolutions[int(precision)];
		if (!convolution)
			convolution = std::make_unique<Convolution>(session.handle, geometry, precision);
	}
	// Small halves and floats that are not zero, in the same memory: each pair of halves is also a float.
	std::vector<uint32_t> host(geometry.x() + geometry.w() + geometry.y());
	Random random(1);
	for (uint32_t &bits : host) {
		const auto mantissa = static_cast<uint32_t>(random.uniform() * 0x400);
		bits = (random.uniform() < 0.5 ? 0xb8002800u : 0x3800a800u) | mantissa << 16 | (mantissa ^ 0x155);
	}
	float *memory = nullptr;
	CHECK(cudaMalloc(reinterpret_cast<void **>(&memory), host.size() * sizeof(float)));
	CHECK(cudaMemcpy(memory, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
	CHECK(cudaDeviceSynchronize());
	gpu::interleave(rounds, names, [&](const Way &way) {
		return gpu::text(gpu::timeOnDevice(session.stream, [&](int) {
			convolutions[int(precisionOf(way))]->enqueue(session.handle, way.isBare ? bare : linked, memory,
			                                             memory + geometry.x(), memory + geometry.x() + geometry.w(),
			                                             workspace);
		}));
	});
	CHECK(cudaFree(memory));
}

} // namespace

int main()
{
	DnnSession session;
	const Functions bare = {ORIGINAL(cudnn, cudnnConvolutionForward), ORIGINAL(cudnn, cudnnConvolutionBackwardData),
	                        ORIGINAL(cudnn, cudnnConvolutionBackwardFilter)};
	void *workspace = nullptr;
	CHECK(cudaMalloc(&workspace, gpu::isEmulated() ? 64u << 20 : mostWorkspace));
	for (std::string line; std::getline(std::cin, line);) {
		std::istringstream words(line);
		Geometry g;
		int rounds = 0;
		words >> g.direction >> g.images >> g.channels >> g.size >> g.filters >> g.kernel >> g.stride >> rounds;
		measure(session, workspace, bare, g, rounds, gpu::words(words));
	}
}
