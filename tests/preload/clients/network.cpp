// A small convolutional net for the digits of the demo. `train` makes it with cuDNN's legacy calls, forward and back,
// and writes its weights; `classify` reads them and runs it through the graph API. The environment names the files:
// DIGITS, WEIGHTS. Nothing here knows of autoamp.
//
// 1x8x8 -> conv 16 3x3, bias, ReLU, max pool 2 -> conv 32 3x3, bias, ReLU -> conv 10 4x4, bias -> softmax
#include "dnn.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <numeric>
#include <utility>

using namespace client;

namespace {

constexpr int side = 8, pixels = side * side, classes = 10, batch = 60, epochs = 6;
constexpr float rate = 0.08f, momentum = 0.9f, one = 1, zero = 0;
constexpr struct {
	int c, k, filter, pad, size; // size: edge of the input image
} layers[] = {{1, 16, 3, 1, side}, {16, 32, 3, 1, side / 2}, {32, classes, side / 2, 0, side / 2}};

struct Handles : Session {
	Handles()
	{
		DNN(cudnnCreate(&dnn));
		DNN(cudnnSetStream(dnn, stream));
		CHECK(cublasSetStream(handle, stream));
	}
	~Handles() { DNN(cudnnDestroy(dnn)); }
	cudnnHandle_t dnn = nullptr;
};

const char *file(const char *variable)
{
	const char *name = std::getenv(variable);
	return name ? name : (fail(variable, "not set"), nullptr);
}

struct Samples {
	std::vector<float> images;
	std::vector<int> labels;
	int count() const { return static_cast<int>(labels.size()); }
};

// Every fifth image is for the test.
std::pair<Samples, Samples> readSamples()
{
	std::ifstream from(file("DIGITS"));
	std::pair<Samples, Samples> all;
	int value;
	char comma;
	for (int row = 0; from >> value; row++) {
		Samples &samples = row % 5 == 4 ? all.second : all.first;
		for (int i = 0; i < pixels; i++, from >> comma >> value)
			samples.images.push_back(static_cast<float>(value) / 16);
		samples.labels.push_back(value);
	}
	if (all.first.count() < batch || all.second.count() == 0)
		fail(file("DIGITS"), "too few images");
	return all;
}

void fill(Array &array, const std::vector<float> &values)
{
	for (size_t i = 0; i < array.size(); i++)
		array[i] = i < values.size() ? values[i] : 0;
	array.upload();
}

// ---- the legacy interface

struct Tensor {
	Tensor(int n, int c, int h, int w, cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW)
	    : values(static_cast<size_t>(n) * c * h * w), gradient(values.size())
	{
		DNN(cudnnCreateTensorDescriptor(&descriptor));
		DNN(cudnnSetTensor4dDescriptor(descriptor, format, CUDNN_DATA_FLOAT, n, c, h, w));
	}
	Tensor(const Tensor &) = delete;
	~Tensor() { DNN(cudnnDestroyTensorDescriptor(descriptor)); }

	Array values, gradient;
	cudnnTensorDescriptor_t descriptor = nullptr;
};

struct Relu {
	Relu()
	{
		DNN(cudnnCreateActivationDescriptor(&descriptor));
		DNN(cudnnSetActivationDescriptor(descriptor, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
	}
	~Relu() { DNN(cudnnDestroyActivationDescriptor(descriptor)); }
	void forward(Handles &on, Tensor &x) const
	{
		DNN(cudnnActivationForward(on.dnn, descriptor, &one, x.descriptor, x.values.data(), &zero, x.descriptor,
		                           x.values.data()));
	}
	void backward(Handles &on, Tensor &y) const
	{
		DNN(cudnnActivationBackward(on.dnn, descriptor, &one, y.descriptor, y.values.data(), y.descriptor,
		                            y.gradient.data(), y.descriptor, y.values.data(), &zero, y.descriptor,
		                            y.gradient.data()));
	}
	cudnnActivationDescriptor_t descriptor = nullptr;
};

struct Pool {
	Pool()
	{
		DNN(cudnnCreatePoolingDescriptor(&descriptor));
		DNN(cudnnSetPooling2dDescriptor(descriptor, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
	}
	~Pool() { DNN(cudnnDestroyPoolingDescriptor(descriptor)); }
	void forward(Handles &on, Tensor &x, Tensor &y) const
	{
		DNN(cudnnPoolingForward(on.dnn, descriptor, &one, x.descriptor, x.values.data(), &zero, y.descriptor,
		                        y.values.data()));
	}
	void backward(Handles &on, Tensor &x, Tensor &y) const
	{
		DNN(cudnnPoolingBackward(on.dnn, descriptor, &one, y.descriptor, y.values.data(), y.descriptor,
		                         y.gradient.data(), x.descriptor, x.values.data(), &zero, x.descriptor,
		                         x.gradient.data()));
	}
	cudnnPoolingDescriptor_t descriptor = nullptr;
};

class Convolution
{
public:
	Convolution(Handles &on, int layer, Random &random, Tensor &from, Tensor &to)
	    : on_(on), x_(from), y_(to), bias(1, layers[layer].k, 1, 1),
	      weights(layers[layer].k, layers[layer].c, layers[layer].filter, layers[layer].filter)
	{
		const auto &[c, k, filter, pad, size] = layers[layer];
		DNN(cudnnCreateFilterDescriptor(&filter_));
		DNN(cudnnSetFilter4dDescriptor(filter_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, k, c, filter, filter));
		DNN(cudnnCreateConvolutionDescriptor(&how_));
		DNN(cudnnSetConvolution2dDescriptor(how_, pad, pad, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
		std::vector<float> start(weights.values.size());
		for (float &weight : start)
			weight = static_cast<float>(random.gaussian() * std::sqrt(2.0 / (c * filter * filter)));
		fill(weights.values, start);
		fill(bias.values, {});
		fill(weights.gradient, {}), fill(bias.gradient, {}); // accumulates momentum
		int found = 0;
		DNN(cudnnGetConvolutionForwardAlgorithm_v7(on.dnn, x_.descriptor, filter_, how_, y_.descriptor, 1, &found,
		                                           &forward_));
		DNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(on.dnn, filter_, y_.descriptor, how_, x_.descriptor, 1, &found,
		                                                &data_));
		DNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7(on.dnn, x_.descriptor, y_.descriptor, how_, filter_, 1,
		                                                  &found, &gradient_));
		bytes_ = std::max({forward_.memory, data_.memory, gradient_.memory});
		workspace_ = std::make_unique<Array>(bytes_ / sizeof(float) + 1);
	}
	Convolution(const Convolution &) = delete;
	~Convolution()
	{
		DNN(cudnnDestroyFilterDescriptor(filter_));
		DNN(cudnnDestroyConvolutionDescriptor(how_));
	}

	void forward()
	{
		DNN(cudnnConvolutionForward(on_.dnn, &one, x_.descriptor, x_.values.data(), filter_, weights.values.data(),
		                            how_, forward_.algo, workspace_->data(), bytes_, &zero, y_.descriptor,
		                            y_.values.data()));
		DNN(cudnnAddTensor(on_.dnn, &one, bias.descriptor, bias.values.data(), &one, y_.descriptor, y_.values.data()));
	}
	// From y's gradient to x's if requested, and one descent step.
	void backward(bool isAskedOn)
	{
		if (isAskedOn)
			DNN(cudnnConvolutionBackwardData(on_.dnn, &one, filter_, weights.values.data(), y_.descriptor,
			                                 y_.gradient.data(), how_, data_.algo, workspace_->data(), bytes_, &zero,
			                                 x_.descriptor, x_.gradient.data()));
		DNN(cudnnConvolutionBackwardFilter(on_.dnn, &one, x_.descriptor, x_.values.data(), y_.descriptor,
		                                   y_.gradient.data(), how_, gradient_.algo, workspace_->data(), bytes_,
		                                   &momentum, filter_, weights.gradient.data()));
		DNN(cudnnConvolutionBackwardBias(on_.dnn, &one, y_.descriptor, y_.gradient.data(), &momentum, bias.descriptor,
		                                 bias.gradient.data()));
		const float step = -rate;
		for (Tensor *values : {&weights, &bias})
			CHECK(cublasSaxpy(on_.handle, static_cast<int>(values->values.size()), &step, values->gradient.data(), 1,
			                  values->values.data(), 1));
	}

private:
	Handles &on_;
	Tensor &x_, &y_;
	cudnnFilterDescriptor_t filter_ = nullptr;
	cudnnConvolutionDescriptor_t how_ = nullptr;
	cudnnConvolutionFwdAlgoPerf_t forward_;
	cudnnConvolutionBwdDataAlgoPerf_t data_;
	cudnnConvolutionBwdFilterAlgoPerf_t gradient_;
	size_t bytes_ = 0;
	std::unique_ptr<Array> workspace_;

public:
	Tensor bias, weights;
};

int largest(const float *scores)
{
	return static_cast<int>(std::max_element(scores, scores + classes) - scores);
}

void train(Line &line)
{
	const auto [training, testing] = readSamples();
	Handles on;
	Random random(1);
	Tensor x(batch, 1, side, side), first(batch, 16, side, side), pooled(batch, 16, side / 2, side / 2),
	    second(batch, 32, side / 2, side / 2), scores(batch, classes, 1, 1), shares(batch, classes, 1, 1);
	Convolution one1(on, 0, random, x, first), two(on, 1, random, pooled, second), three(on, 2, random, second, scores);
	const Relu relu;
	const Pool pool;
	Array wanted(static_cast<size_t>(batch) * classes);

	const auto forward = [&](const Samples &samples, const int *order, int count) {
		std::vector<float> images, targets(wanted.size());
		for (int i = 0; i < count; i++) {
			const float *image = &samples.images[static_cast<size_t>(order[i]) * pixels];
			images.insert(images.end(), image, image + pixels);
			targets[static_cast<size_t>(i * classes + samples.labels[static_cast<size_t>(order[i])])] = 1;
		}
		CHECK(cudaStreamSynchronize(on.stream));
		fill(x.values, images), fill(wanted, targets);
		one1.forward(), relu.forward(on, first), pool.forward(on, first, pooled);
		two.forward(), relu.forward(on, second);
		three.forward();
		DNN(cudnnSoftmaxForward(on.dnn, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, &one, scores.descriptor,
		                        scores.values.data(), &zero, shares.descriptor, shares.values.data()));
	};
	std::vector<int> order(static_cast<size_t>(training.count()));
	std::iota(order.begin(), order.end(), 0);
	for (int epoch = 0; epoch < epochs; epoch++) {
		for (size_t i = order.size(); i > 1; i--)
			std::swap(order[i - 1], order[static_cast<size_t>(random.uniform() * static_cast<double>(i))]);
		for (int start = 0; start + batch <= training.count(); start += batch) {
			forward(training, &order[static_cast<size_t>(start)], batch);
			// softmax and cross entropy: probabilities minus targets, averaged over the batch
			const float less = -1, mean = 1.0f / batch;
			const int count = batch * classes;
			CHECK(cublasScopy(on.handle, count, shares.values.data(), 1, scores.gradient.data(), 1));
			CHECK(cublasSaxpy(on.handle, count, &less, wanted.data(), 1, scores.gradient.data(), 1));
			CHECK(cublasSscal(on.handle, count, &mean, scores.gradient.data(), 1));
			three.backward(true), relu.backward(on, second);
			two.backward(true), pool.backward(on, first, pooled), relu.backward(on, first);
			one1.backward(false);
		}
	}

	int right = 0;
	double loss = 0;
	for (int start = 0; start < testing.count(); start += batch) {
		std::vector<int> these(static_cast<size_t>(std::min(batch, testing.count() - start)));
		std::iota(these.begin(), these.end(), start);
		forward(testing, these.data(), static_cast<int>(these.size()));
		CHECK(cudaStreamSynchronize(on.stream));
		shares.values.download();
		for (size_t i = 0; i < these.size(); i++) {
			const int label = testing.labels[static_cast<size_t>(these[i])];
			std::vector<float> own(classes);
			for (size_t j = 0; j < classes; j++)
				own[j] = shares.values[i * classes + j];
			right += largest(own.data()) == label;
			loss -= std::log(std::max(own[static_cast<size_t>(label)], 1e-30f)) / testing.count();
		}
	}
	std::ofstream to(file("WEIGHTS"), std::ios::binary);
	for (Convolution *layer : {&one1, &two, &three})
		for (Array *values : {&layer->weights.values, &layer->bias.values}) {
			values->download();
			for (size_t i = 0; i < values->size(); i++)
				to.write(reinterpret_cast<const char *>(&(*values)[i]), sizeof(float));
		}
	line.require(to.good(), "the weights cannot be written");
	line.put("steps", training.count() / batch * epochs).put("batches", (testing.count() + batch - 1) / batch);
	line.put("tested", testing.count()).put("right", right).put("loss", loss);
}

// ---- the graph API

Dims channelsLast(const Dims &dims)
{
	return {dims[1] * dims[2] * dims[3], 1, dims[1] * dims[3], dims[1]};
}

// No data: virtual.
struct Operand {
	Operand(int64_t id, const Dims &dims, const Dims &strides, const Array *array = nullptr)
	    : uid(id), data(array ? array->data() : nullptr), descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
	{
		descriptor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT).set(CUDNN_ATTR_TENSOR_UNIQUE_ID, Dims{uid});
		descriptor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims).set(CUDNN_ATTR_TENSOR_STRIDES, strides);
		descriptor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, Dims{16});
		const bool isVirtual = !array;
		DNN(cudnnBackendSetAttribute(descriptor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &isVirtual));
		DNN(cudnnBackendFinalize(descriptor));
	}
	int64_t uid;
	void *data;
	Descriptor descriptor;
};

Descriptor convolution(const Operand &x, const Operand &w, const Operand &y, int64_t pad)
{
	const Dims ones(2, 1), pads(2, pad);
	const Descriptor how =
	    Descriptor(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
	        .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, Dims{2})
	        .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
	        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, std::vector{CUDNN_CROSS_CORRELATION})
	        .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pads)
	        .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pads)
	        .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, ones)
	        .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, ones)
	        .finalized();
	return Descriptor(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
	    .link(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how)
	    .link(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x.descriptor)
	    .link(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w.descriptor)
	    .link(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y.descriptor)
	    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, std::vector{one})
	    .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, std::vector{zero})
	    .finalized();
}

Descriptor product(const Operand &a, const Operand &b, const Operand &c)
{
	const Descriptor how =
	    Descriptor(CUDNN_BACKEND_MATMUL_DESCRIPTOR).set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalized();
	return Descriptor(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
	    .link(CUDNN_ATTR_OPERATION_MATMUL_DESC, how)
	    .link(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor)
	    .link(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor)
	    .link(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor)
	    .finalized();
}

Descriptor elementwise(cudnnPointwiseMode_t mode, const Operand &x, const Operand *b, const Operand &y)
{
	const Descriptor how = Descriptor(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
	                           .set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode})
	                           .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
	                           .finalized();
	Descriptor made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	made.link(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
	made.link(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor);
	if (b)
		made.link(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->descriptor);
	return made.link(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor).finalized();
}

// The first plan of the heuristics that can be made, run once.
void execute(Handles &on, const std::vector<const Descriptor *> &nodes, const std::vector<const Operand *> &operands)
{
	const std::vector<cudnnBackendDescriptor_t> raw = [&] {
		std::vector<cudnnBackendDescriptor_t> all;
		for (const Descriptor *node : nodes)
			all.push_back(*node);
		return all;
	}();
	const Descriptor graph = Descriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
	                             .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw)
	                             .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{on.dnn})
	                             .finalized();
	for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_INSTANT, CUDNN_HEUR_MODE_FALLBACK}) {
		const Descriptor heuristics = Descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
		                                  .link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
		                                  .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{mode})
		                                  .finalized();
		const Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
		cudnnBackendDescriptor_t first = configuration;
		int64_t count = 0, bytes = 0;
		DNN(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
		                             &count, &first));
		if (count == 0)
			continue;
		const Descriptor plan = Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
		                            .set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{on.dnn})
		                            .link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
		                            .finalized();
		DNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
		                             &bytes));
		const Array workspace(static_cast<size_t>(bytes) / sizeof(float) + 1);
		Dims uids;
		std::vector<void *> pointers;
		for (const Operand *operand : operands)
			uids.push_back(operand->uid), pointers.push_back(operand->data);
		const Descriptor pack =
		    Descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
		        .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids)
		        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers)
		        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector<void *>{workspace.data()})
		        .finalized();
		DNN(cudnnBackendExecute(on.dnn, plan, pack));
		CHECK(cudaStreamSynchronize(on.stream));
		return;
	}
	fail("plan", "no engine");
}

void classify(Line &line)
{
	const Samples samples = readSamples().second;
	const int64_t n = samples.count();
	Handles on;
	// Filters with the channels last. A filter of the whole image is then rows of a matrix.
	std::vector<std::unique_ptr<Array>> weights, biases;
	std::ifstream from(file("WEIGHTS"), std::ios::binary);
	for (const auto &[c, k, filter, pad, size] : layers) {
		const auto values = [&](int count) {
			std::vector<float> all(static_cast<size_t>(count));
			from.read(reinterpret_cast<char *>(all.data()), count * static_cast<int>(sizeof(float)));
			return all;
		};
		const std::vector<float> read = values(k * c * filter * filter);
		std::vector<float> turned;
		for (int i = 0; i < k; i++)
			for (int at = 0; at < filter * filter; at++)
				for (int channel = 0; channel < c; channel++)
					turned.push_back(read[static_cast<size_t>((i * c + channel) * filter * filter + at)]);
		weights.push_back(std::make_unique<Array>(turned.size()));
		fill(*weights.back(), turned);
		biases.push_back(std::make_unique<Array>(static_cast<size_t>(k)));
		fill(*biases.back(), values(k));
	}
	line.require(from.good(), "the weights cannot be read");

	const int count = static_cast<int>(n);
	Array images(samples.images.size()), scores(static_cast<size_t>(n * classes));
	fill(images, samples.images);
	Tensor first(count, 16, side, side, CUDNN_TENSOR_NHWC), pooled(count, 16, side / 2, side / 2, CUDNN_TENSOR_NHWC),
	    second(count, 32, side / 2, side / 2, CUDNN_TENSOR_NHWC), bias(1, 32, 1, 1);
	const Relu relu;
	const Pool pool;
	{
		const Dims in{n, 1, side, side}, filter{16, 1, 3, 3}, out{n, 16, side, side}, each{1, 16, 1, 1};
		const Operand x('x', in, channelsLast(in), &images), w('w', filter, channelsLast(filter), weights[0].get()),
		    sum('s', out, channelsLast(out)), b('b', each, channelsLast(each), biases[0].get()),
		    biased('t', out, channelsLast(out)), y('y', out, channelsLast(out), &first.values);
		const Descriptor convolved = convolution(x, w, sum, 1),
		                 added = elementwise(CUDNN_POINTWISE_ADD, sum, &b, biased),
		                 cut = elementwise(CUDNN_POINTWISE_RELU_FWD, biased, nullptr, y);
		execute(on, {&convolved, &added, &cut}, {&x, &w, &b, &y});
	}
	pool.forward(on, first, pooled);
	{
		const Dims in{n, 16, side / 2, side / 2}, filter{32, 16, 3, 3}, out{n, 32, side / 2, side / 2};
		const Operand x('x', in, channelsLast(in), &pooled.values),
		    w('w', filter, channelsLast(filter), weights[1].get()), y('y', out, channelsLast(out), &second.values);
		const Descriptor convolved = convolution(x, w, y, 1);
		execute(on, {&convolved}, {&x, &w, &y});
	}
	DNN(cudnnAddTensor(on.dnn, &one, bias.descriptor, biases[1]->data(), &one, second.descriptor,
	                   second.values.data()));
	relu.forward(on, second);
	{
		const int64_t k = 32 * side / 2 * side / 2;
		const Operand a('a', {1, n, k}, {n * k, k, 1}, &second.values),
		    b('b', {1, k, classes}, {k * classes, 1, k}, weights[2].get()),
		    c('c', {1, n, classes}, {n * classes, classes, 1}, &scores);
		const Descriptor multiplied = product(a, b, c);
		execute(on, {&multiplied}, {&a, &b, &c});
	}
	scores.download();
	std::string said;
	int right = 0;
	for (size_t i = 0; i < static_cast<size_t>(n); i++) {
		float own[classes];
		for (size_t j = 0; j < classes; j++)
			own[j] = scores[i * classes + j] + (*biases[2])[j];
		said += static_cast<char>('0' + largest(own));
		right += largest(own) == samples.labels[i];
	}
	line.put("right", right).put("said", said).bits("bits", scores.bits());
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, {{"train", train}, {"classify", classify}});
}
