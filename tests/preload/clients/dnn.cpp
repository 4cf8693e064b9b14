// Calls every cuDNN entry point for which autoamp has a wrapper, one per case, named after the entry point. The
// descriptors are typical if the result depends on them. CLIENT_LIBRARY: the functions are looked up in that library
// instead of the linked one.
#include "dnn.h"

#include <dlfcn.h>

#include <cstdlib>

using namespace client;

namespace {

constexpr int images = 2, channels = 8, height = 6, width = 6, count = images * channels * height * width;

struct Memory {
	float *data = nullptr;
	Memory() { reset(); }
	void reset()
	{
		std::vector<float> values(1 << 16);
		Random random(7);
		for (float &value : values)
			value = static_cast<float>(random.gaussian());
		if (!data)
			CHECK(cudaMalloc(reinterpret_cast<void **>(&data), values.size() * sizeof(float)));
		CHECK(cudaMemcpy(data, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice));
	}
	operator float *() const { return data; }
};

template <typename Descriptor, typename Create>
Descriptor make(Create create)
{
	Descriptor made = nullptr;
	needDnn(create(&made), "a descriptor");
	return made;
}
#define MAKE(what) make<cudnn##what##Descriptor_t>(cudnnCreate##what##Descriptor)

cudnnTensorDescriptor_t tensor(int n, int c, int h, int w)
{
	auto made = MAKE(Tensor);
	needDnn(cudnnSetTensor4dDescriptor(made, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w), "a tensor");
	return made;
}

// The function that a program with other binding methods would reach.
template <typename Function>
Function *bound(const char *name, Function *linked)
{
	const char *const library = std::getenv("CLIENT_LIBRARY"); // opened by hand
	if (!library)
		return linked;
	void *const found = dlsym(dlopen(library, RTLD_NOW | RTLD_LOCAL), name);
	if (!found)
		fail(name, dlerror());
	return reinterpret_cast<Function *>(found);
}

} // namespace

int main(int argc, char **argv)
{
	cudnnHandle_t handle = nullptr;
	needDnn(cudnnCreate(&handle), "cudnnCreate");
	Memory x, w, y, dx, dw, dy, bias, more, work;
	const float one = 1, zero = 0;
	constexpr size_t size = sizeof(float) << 16;
	const auto t = tensor(images, channels, height, width), p = tensor(1, channels, 1, 1),
	           r = tensor(1, channels, 1, 1);
	const auto filter = MAKE(Filter);
	needDnn(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, channels, channels, 3, 3),
	        "a filter");
	const auto conv = MAKE(Convolution);
	needDnn(cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT), "conv");
	const auto act = MAKE(Activation);
	needDnn(cudnnSetActivationDescriptor(act, CUDNN_ACTIVATION_TANH, CUDNN_PROPAGATE_NAN, 0), "activation");
	const auto relu = MAKE(Activation);
	needDnn(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0), "activation");
	const auto pool = MAKE(Pooling);
	needDnn(cudnnSetPooling2dDescriptor(pool, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, CUDNN_PROPAGATE_NAN, 3, 3, 1,
	                                    1, 1, 1),
	        "pooling");
	const auto lrn = MAKE(LRN);
	needDnn(cudnnSetLRNDescriptor(lrn, 5, 1e-4, 0.75, 2), "lrn");
	const auto op = MAKE(OpTensor);
	needDnn(cudnnSetOpTensorDescriptor(op, CUDNN_OP_TENSOR_MUL, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN), "op");
	const auto reduce = MAKE(ReduceTensor);
	needDnn(cudnnSetReduceTensorDescriptor(reduce, CUDNN_REDUCE_TENSOR_AVG, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN,
	                                       CUDNN_REDUCE_TENSOR_NO_INDICES, CUDNN_32BIT_INDICES),
	        "reduce");
	const auto rnn = MAKE(RNN);
	needDnn(cudnnSetRNNDescriptor_v8(rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_GRU, CUDNN_RNN_DOUBLE_BIAS,
	                                 CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT,
	                                 CUDNN_DEFAULT_MATH, 16, 16, 16, 1, nullptr, 0),
	        "rnn");
	const auto steps = MAKE(RNNData);
	const int lengths[] = {3, 3};
	needDnn(cudnnSetRNNDataDescriptor(steps, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 3, 2, 16,
	                                  lengths, nullptr),
	        "data");
	const auto state = MAKE(Tensor);
	const int stateDims[] = {1, 2, 16}, stateStrides[] = {32, 16, 1};
	needDnn(cudnnSetTensorNdDescriptor(state, CUDNN_DATA_FLOAT, 3, stateDims, stateStrides), "state");
	int32_t *device = reinterpret_cast<int32_t *>(more.data);
	CHECK(cudaMemcpy(device, lengths, sizeof lengths, cudaMemcpyHostToDevice));

	const std::pair<const char *, const Memory *> results[] = {{"y_bits", &y}, {"dx_bits", &dx}, {"dw_bits", &dw}};
	std::vector<Case> cases;
#define CASE(name, ...)                                                                                                \
	cases.push_back({#name, [&](Line &line) {                                                                          \
		                 line.put("status", static_cast<int>(bound(#name, name)(__VA_ARGS__)));                        \
		                 CHECK(cudaDeviceSynchronize());                                                               \
		                 std::vector<float> values(count);                                                             \
		                 for (const auto &[key, each] : results) {                                                     \
			                 CHECK(cudaMemcpy(values.data(), *each, count * sizeof(float), cudaMemcpyDeviceToHost));   \
			                 line.bits(key, hash(values.data(), count * sizeof(float)));                               \
		                 }                                                                                             \
	                 }});
	const auto fwd = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
	const auto bwd = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
	const auto grad = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
	const auto spatial = CUDNN_BATCHNORM_SPATIAL;
	CASE(cudnnConvolutionForward, handle, &one, t, x, filter, w, conv, fwd, work, size, &zero, t, y)
	CASE(cudnnConvolutionBiasActivationForward, handle, &one, t, x, filter, w, conv, fwd, work, size, &zero, t, y, p,
	     bias, relu, t, y)
	CASE(cudnnConvolutionBackwardData, handle, &one, filter, w, t, dy, conv, bwd, work, size, &zero, t, dx)
	CASE(cudnnConvolutionBackwardFilter, handle, &one, t, x, t, dy, conv, grad, work, size, &zero, filter, dw)
	CASE(cudnnConvolutionBackwardBias, handle, &one, t, dy, &zero, p, dw)
	CASE(cudnnFusedOpsExecute, handle, nullptr, nullptr)
	CASE(cudnnBackendExecute, handle, nullptr, nullptr)
	CASE(cudnnBackendPopulateCudaGraph, handle, nullptr, nullptr, nullptr)
	CASE(cudnnBackendUpdateCudaGraph, handle, nullptr, nullptr, nullptr)
	CASE(cudnnRNNForward, handle, rnn, CUDNN_FWD_MODE_INFERENCE, device, steps, x, steps, y, state, nullptr, nullptr,
	     nullptr, nullptr, nullptr, size, w, size, work, 0, nullptr)
	CASE(cudnnRNNBackwardData_v8, handle, rnn, device, steps, y, dy, steps, dx, state, nullptr, nullptr, nullptr,
	     nullptr, nullptr, nullptr, nullptr, size, w, size, work, size, bias)
	CASE(cudnnRNNBackwardWeights_v8, handle, rnn, CUDNN_WGRAD_MODE_ADD, device, steps, x, state, nullptr, steps, y,
	     size, dw, size, work, size, bias)
	CASE(cudnnMultiHeadAttnForward, handle, nullptr, 0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
	     nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr, 0, nullptr)
	CASE(cudnnMultiHeadAttnBackwardData, handle, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
	     nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr, 0, nullptr, 0, nullptr)
	CASE(cudnnMultiHeadAttnBackwardWeights, handle, nullptr, CUDNN_WGRAD_MODE_ADD, nullptr, nullptr, nullptr, nullptr,
	     nullptr, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0, nullptr, 0, nullptr)
	CASE(cudnnSoftmaxForward, handle, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &one, t, x, &zero, t, y)
	CASE(cudnnSoftmaxBackward, handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, t, y, t, dy, &zero, t,
	     dx)
	CASE(cudnnBatchNormalizationForwardInference, handle, spatial, &one, &zero, t, x, t, y, p, w, bias, w, w, 1e-5)
	CASE(cudnnBatchNormalizationForwardTraining, handle, spatial, &one, &zero, t, x, t, y, p, w, bias, 1, more, more,
	     1e-5, dw, dw)
	CASE(cudnnBatchNormalizationForwardTrainingEx, handle, spatial, CUDNN_BATCHNORM_OPS_BN, &one, &zero, t, x, nullptr,
	     nullptr, t, y, p, w, bias, 1, more, more, 1e-5, dw, dw, nullptr, work, size, nullptr, 0)
	CASE(cudnnBatchNormalizationBackward, handle, spatial, &one, &zero, &one, &zero, t, x, t, dy, t, dx, p, w, dw, dw,
	     1e-5, nullptr, nullptr)
	CASE(cudnnBatchNormalizationBackwardEx, handle, spatial, CUDNN_BATCHNORM_OPS_BN, &one, &zero, &one, &zero, t, x,
	     nullptr, nullptr, t, dy, nullptr, nullptr, t, dx, p, w, nullptr, dw, dw, 1e-5, nullptr, nullptr, nullptr, work,
	     size, nullptr, 0)
	CASE(cudnnNormalizationForwardInference, handle, CUDNN_NORM_PER_CHANNEL, CUDNN_NORM_OPS_NORM,
	     CUDNN_NORM_ALGO_STANDARD, &one, &zero, t, x, p, w, bias, p, w, w, nullptr, nullptr, nullptr, t, y, 1e-5, 1)
	CASE(cudnnNormalizationForwardTraining, handle, CUDNN_NORM_PER_CHANNEL, CUDNN_NORM_OPS_NORM,
	     CUDNN_NORM_ALGO_STANDARD, &one, &zero, t, x, p, w, bias, 1, p, more, more, 1e-5, dw, dw, nullptr, nullptr,
	     nullptr, t, y, work, size, nullptr, 0, 1)
	CASE(cudnnNormalizationBackward, handle, CUDNN_NORM_PER_CHANNEL, CUDNN_NORM_OPS_NORM, CUDNN_NORM_ALGO_STANDARD,
	     &one, &zero, &one, &zero, t, x, nullptr, nullptr, t, dy, nullptr, nullptr, t, dx, p, w, nullptr, dw, dw, 1e-5,
	     p, nullptr, nullptr, nullptr, work, size, nullptr, 0, 1)
	CASE(cudnnLRNCrossChannelForward, handle, lrn, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, t, x, &zero, t, y)
	CASE(cudnnLRNCrossChannelBackward, handle, lrn, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, t, y, t, dy, t, x, &zero, t, dx)
	CASE(cudnnDivisiveNormalizationForward, handle, lrn, CUDNN_DIVNORM_PRECOMPUTED_MEANS, &one, t, x, nullptr, work,
	     work, &zero, t, y)
	CASE(cudnnDivisiveNormalizationBackward, handle, lrn, CUDNN_DIVNORM_PRECOMPUTED_MEANS, &one, t, x, nullptr, dy,
	     work, work, &zero, t, dx, nullptr)
	CASE(cudnnPoolingForward, handle, pool, &one, t, x, &zero, t, y)
	CASE(cudnnPoolingBackward, handle, pool, &one, t, y, t, dy, t, x, &zero, t, dx)
	CASE(cudnnActivationForward, handle, act, &one, t, x, &zero, t, y)
	CASE(cudnnActivationBackward, handle, act, &one, t, y, t, dy, t, x, &zero, t, dx)
	CASE(cudnnDropoutForward, handle, nullptr, t, x, t, y, work, size)
	CASE(cudnnDropoutBackward, handle, nullptr, t, dy, t, dx, work, size)
	CASE(cudnnAddTensor, handle, &one, p, bias, &one, t, y)
	CASE(cudnnOpTensor, handle, op, &one, t, x, &one, t, dy, &zero, t, y)
	CASE(cudnnScaleTensor, handle, t, y, &one)
	CASE(cudnnSetTensor, handle, t, y, &one)
	CASE(cudnnReduceTensor, handle, reduce, nullptr, 0, work, size, &one, t, x, &zero, r, y)
	CASE(cudnnCTCLoss, handle, t, x, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
	     CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, nullptr, nullptr, 0)
	CASE(cudnnCTCLoss_v8, handle, CUDNN_CTC_LOSS_ALGO_DETERMINISTIC, nullptr, t, x, nullptr, nullptr, nullptr, nullptr,
	     nullptr, nullptr, 0, nullptr)
	CASE(cudnnSpatialTfGridGeneratorForward, handle, nullptr, x, y)
	CASE(cudnnSpatialTfGridGeneratorBackward, handle, nullptr, x, y)
	CASE(cudnnSpatialTfSamplerForward, handle, nullptr, &one, t, x, more, &zero, t, y)
	CASE(cudnnSpatialTfSamplerBackward, handle, nullptr, &one, t, x, &zero, t, dx, &one, t, dy, more, &zero, nullptr)
	CASE(cudnnTransformTensor, handle, &one, t, x, &zero, t, y)
	CASE(cudnnTransformTensorEx, handle, nullptr, &one, t, x, &zero, t, y)
	CASE(cudnnTransformFilter, handle, nullptr, &one, filter, w, &zero, filter, y)
	CASE(cudnnIm2Col, handle, t, x, filter, conv, y)
	CASE(cudnnReorderFilterAndBias, handle, filter, CUDNN_NO_REORDER, w, y, 0, nullptr, nullptr)
	const int status = runCases(argc, argv, cases);
	needDnn(cudnnDestroy(handle), "cudnnDestroy");
	return status;
}
