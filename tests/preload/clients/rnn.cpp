// cuDNN RNNs, forward and backward, checked against the same RNN in fp64 by the same library. One case per line. It
// does not depend on autoamp, except that it can open regions.
#include "dnn.h"
#include "inject/autoamp.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

using namespace client;

namespace {

enum class Lengths { full, sorted, mixed };

struct Spec {
	const char *name;
	cudnnRNNMode_t cell = CUDNN_LSTM;
	int layers = 1, directions = 1, input = 24, hidden = 32, projection = 0;
	int steps = 6, batch = 5;
	Lengths lengths = Lengths::full;
	cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
	cudnnRNNBiasMode_t bias = CUDNN_RNN_DOUBLE_BIAS;
	cudnnRNNInputMode_t inputMode = CUDNN_LINEAR_INPUT;
	cudnnRNNAlgo_t algorithm = CUDNN_RNN_ALGO_STANDARD;
	cudnnMathType_t math = CUDNN_DEFAULT_MATH;
	bool isTraining = true, hasStates = true;
	float dropout = 0, clip = 0, fill = 0;

	int outputs() const { return projection ? projection : hidden; }
	int pseudoLayers() const { return layers * directions; }
	std::vector<int> lengthsOf() const
	{
		std::vector<int> all(static_cast<size_t>(batch), steps);
		for (int i = 1; lengths != Lengths::full && i < batch; i++)
			all[static_cast<size_t>(i)] = std::max(1, steps - i);
		if (lengths == Lengths::mixed)
			std::rotate(all.begin(), all.begin() + 2, all.end());
		return all;
	}
	bool isPacked() const { return layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED; }
};

// On the device, with a margin on either side; a NaN of one pattern marks elements that were not written.
template <typename T>
class Buffer
{
public:
	explicit Buffer(size_t count) : count_(count), image_(count + 2 * margin, untouched())
	{
		CHECK(cudaMalloc(reinterpret_cast<void **>(&device_), image_.size() * sizeof(T)));
		upload();
	}
	~Buffer() { cudaFree(device_); }
	Buffer(const Buffer &) = delete;

	T *data() const { return device_ + margin; }
	size_t size() const { return count_; }
	T &operator[](size_t i) { return image_[margin + i]; }
	T operator[](size_t i) const { return image_[margin + i]; }
	void upload() const
	{
		CHECK(cudaMemcpy(device_, image_.data(), image_.size() * sizeof(T), cudaMemcpyHostToDevice));
	}
	void download() { CHECK(cudaMemcpy(image_.data(), device_, image_.size() * sizeof(T), cudaMemcpyDeviceToHost)); }
	bool isWholeOutside() const
	{
		for (size_t i = 0; i < margin; i++)
			if (!isUntouched(image_[i]) || !isUntouched(image_[margin + count_ + i]))
				return false;
		return true;
	}
	static bool isUntouched(T value)
	{
		const T never = untouched();
		return std::memcmp(&value, &never, sizeof value) == 0;
	}
	uint64_t bits(uint64_t seed) const { return hash(image_.data(), image_.size() * sizeof(T), seed); }

private:
	static constexpr size_t margin = 64;
	static T untouched()
	{
		uint32_t bits[sizeof(T) / 4];
		std::fill(std::begin(bits), std::end(bits), Array::untouched);
		T value;
		std::memcpy(&value, bits, sizeof value);
		return value;
	}
	size_t count_;
	std::vector<T> image_;
	T *device_ = nullptr;
};

// The names of an RNN's results, by the call that computes them.
constexpr const char *names[] = {"y", "hy", "cy", "dx", "dhx", "dcx", "dw"};
constexpr int resultCount = 7, callOf[] = {0, 0, 0, 1, 1, 1, 2};
constexpr const char *callNames[] = {"forward", "data", "weights"};

template <typename T>
class Net
{
public:
	static constexpr cudnnDataType_t type = sizeof(T) == 8 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;

	Net(const Spec &of, const DnnSession &on, uint64_t seed = 1)
	    : spec(of), dnn(on), vectors_(vectorCount()), x(vectors_ * size(of.input)), dx(x.size()),
	      y(vectors_ * size(of.directions * of.outputs())), dy(y.size()), hx(states(of.outputs())), hy(hx.size()),
	      dhy(hx.size()), dhx(hx.size()), cx(states(of.hidden)), cy(cx.size()), dcy(cx.size()), dcx(cx.size())
	{
		makeDescriptors();
		Random random(seed);
		for (Buffer<T> *const buffer : {&x, &dy, &hx, &dhy, &cx, &dcy})
			for (size_t i = 0; i < buffer->size(); i++)
				(*buffer)[i] = static_cast<T>(static_cast<float>(random.gaussian() * (buffer == &x ? 1 : 0.5)));
		DNN(cudnnGetRNNWeightSpaceSize(dnn.handle, rnn, &weightBytes));
		w = std::make_unique<Buffer<T>>(weightBytes / sizeof(T));
		dw = std::make_unique<Buffer<T>>(weightBytes / sizeof(T));
		before_.resize(dw->size());
		isWeight_.resize(dw->size());
		eachWeight([&](size_t at, int columns) {
			(*w)[at] = static_cast<T>(static_cast<float>(random.gaussian() / std::sqrt(columns)));
			(*dw)[at] = before_[at] = static_cast<T>(static_cast<float>(random.gaussian()));
			isWeight_[at] = true;
		});
		for (const auto mode : {CUDNN_FWD_MODE_INFERENCE, CUDNN_FWD_MODE_TRAINING}) {
			size_t bytes = 0;
			DNN(cudnnGetRNNTempSpaceSizes(dnn.handle, rnn, mode, xDesc, &bytes, &reserveBytes));
			workBytes = std::max(workBytes, bytes);
		}
		CHECK(cudaMalloc(&work, workBytes));
		CHECK(cudaMalloc(&reserve, reserveBytes));
		CHECK(cudaMalloc(reinterpret_cast<void **>(&devLengths), sizeof(int) * size(spec.batch)));
		CHECK(cudaMemcpy(devLengths, spec.lengthsOf().data(), sizeof(int) * size(spec.batch), cudaMemcpyHostToDevice));
		upload();
	}
	~Net()
	{
		cudaFree(work), cudaFree(reserve), cudaFree(devLengths), cudaFree(dropoutStates_);
		cudnnDestroyRNNDescriptor(rnn), cudnnDestroyRNNDataDescriptor(xDesc), cudnnDestroyRNNDataDescriptor(yDesc);
		cudnnDestroyTensorDescriptor(hDesc), cudnnDestroyTensorDescriptor(cDesc);
		if (dropout)
			cudnnDestroyDropoutDescriptor(dropout);
	}
	Net(const Net &) = delete;

	void upload() const
	{
		const Buffer<T> *const all[] = {&x, &dx, &y, &dy, &hx, &hy, &dhy, &dhx, &cx, &cy, &dcy, &dcx, &*w, &*dw};
		for (const Buffer<T> *const each : all)
			each->upload();
		CHECK(cudaDeviceSynchronize());
	}
	T *state(const Buffer<T> &of) const { return spec.hasStates ? of.data() : nullptr; }
	int forward() const
	{
		return cudnnRNNForward(dnn.handle, rnn, spec.isTraining ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
		                       devLengths, xDesc, x.data(), yDesc, y.data(), hDesc, state(hx), hy.data(), cDesc,
		                       state(cx), cy.data(), weightBytes, w->data(), workBytes, work, reserveBytes, reserve);
	}
	int data() const
	{
		return cudnnRNNBackwardData_v8(dnn.handle, rnn, devLengths, yDesc, y.data(), dy.data(), xDesc, dx.data(), hDesc,
		                               state(hx), state(dhy), state(dhx), cDesc, state(cx), state(dcy), state(dcx),
		                               weightBytes, w->data(), workBytes, work, reserveBytes, reserve);
	}
	int weights() const
	{
		return cudnnRNNBackwardWeights_v8(dnn.handle, rnn, CUDNN_WGRAD_MODE_ADD, devLengths, xDesc, x.data(), hDesc,
		                                  state(hx), yDesc, y.data(), weightBytes, dw->data(), workBytes, work,
		                                  reserveBytes, reserve);
	}
	int call(int which) const { return which == 0 ? forward() : which == 1 ? data() : weights(); }
	int calls() const { return spec.isTraining ? 3 : 1; }
	// The statuses of all calls, until one fails.
	std::string run() const
	{
		std::string statuses;
		for (int i = 0; i < calls(); i++) {
			const int status = call(i);
			statuses += (i ? "," : "") + std::to_string(status);
			if (status)
				break;
		}
		return statuses;
	}
	void download()
	{
		CHECK(cudaStreamSynchronize(dnn.stream));
		for (int i = 0; i < resultCount; i++)
			result(i).download();
	}
	Buffer<T> &result(int i)
	{
		Buffer<T> *const all[] = {&y, &hy, &cy, &dx, &dhx, &dcx, dw.get()};
		return *all[i];
	}
	bool has(int i) const
	{
		const bool isCell = i == 2 || i == 5, isBack = callOf[i] > 0, isGradientOfState = i == 4 || i == 5;
		return (!isCell || spec.cell == CUDNN_LSTM) && (!isBack || spec.isTraining) &&
		       (!isGradientOfState || spec.hasStates);
	}
	// Returns whether this element of a result belongs to the RNN; otherwise it is padding.
	bool isOwn(int i, size_t at) const
	{
		if (i == 6)
			return isWeight_[at];
		if ((i != 0 && i != 3) || spec.isPacked())
			return true;
		const size_t vector = at / size(i == 0 ? spec.directions * spec.outputs() : spec.input);
		const bool isBatchMajor = spec.layout == CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
		const size_t sequence = isBatchMajor ? vector / size(spec.steps) : vector % size(spec.batch);
		const size_t step = isBatchMajor ? vector % size(spec.steps) : vector / size(spec.batch);
		return step < size(spec.lengthsOf()[sequence]);
	}
	T before(int i, size_t at) const { return i == 6 ? before_[at] : T(0); }
	uint64_t bits(int call)
	{
		uint64_t all = 1;
		for (int i = 0; i < resultCount; i++)
			if (callOf[i] == call)
				all = result(i).bits(all);
		return all;
	}

	const Spec spec;
	const DnnSession &dnn;

private:
	static size_t size(int value) { return static_cast<size_t>(value); }
	size_t vectorCount() const
	{
		size_t active = 0;
		for (const int length : spec.lengthsOf())
			active += size(length);
		return spec.isPacked() ? active : size(spec.steps) * size(spec.batch);
	}
	size_t states(int width) const { return size(spec.pseudoLayers()) * size(spec.batch) * size(width); }
	void makeDescriptors()
	{
		if (spec.dropout > 0) {
			size_t bytes = 0;
			DNN(cudnnDropoutGetStatesSize(dnn.handle, &bytes));
			CHECK(cudaMalloc(&dropoutStates_, bytes));
			DNN(cudnnCreateDropoutDescriptor(&dropout));
			DNN(cudnnSetDropoutDescriptor(dropout, dnn.handle, spec.dropout, dropoutStates_, bytes, 7));
		}
		DNN(cudnnCreateRNNDescriptor(&rnn));
		DNN(cudnnSetRNNDescriptor_v8(rnn, sizeof(T) == 8 ? CUDNN_RNN_ALGO_STANDARD : spec.algorithm, spec.cell,
		                             spec.bias, spec.directions == 2 ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL,
		                             spec.inputMode, type, type, spec.math, spec.input, spec.hidden, spec.outputs(),
		                             spec.layers, dropout,
		                             spec.isPacked() ? CUDNN_RNN_PADDED_IO_DISABLED : CUDNN_RNN_PADDED_IO_ENABLED));
		if (spec.clip > 0)
			DNN(cudnnRNNSetClip_v9(rnn, CUDNN_RNN_CLIP_MINMAX, -spec.clip, spec.clip));
		const std::vector<int> lengths = spec.lengthsOf();
		T fill = static_cast<T>(spec.fill);
		for (const auto &[desc, width] : {std::pair{&xDesc, spec.input}, {&yDesc, spec.directions * spec.outputs()}}) {
			DNN(cudnnCreateRNNDataDescriptor(desc));
			DNN(cudnnSetRNNDataDescriptor(*desc, type, spec.layout, spec.steps, spec.batch, width, lengths.data(),
			                              spec.fill != 0 ? &fill : nullptr));
		}
		for (const auto &[desc, width] : {std::pair{&hDesc, spec.outputs()}, {&cDesc, spec.hidden}}) {
			const int dims[] = {spec.pseudoLayers(), spec.batch, width}, strides[] = {spec.batch * width, width, 1};
			DNN(cudnnCreateTensorDescriptor(desc));
			DNN(cudnnSetTensorNdDescriptor(*desc, type, 3, dims, strides));
		}
	}
	template <typename Visit>
	void eachWeight(Visit visit)
	{
		const int gates = spec.cell == CUDNN_LSTM ? 4 : spec.cell == CUDNN_GRU ? 3 : 1;
		cudnnTensorDescriptor_t desc[2];
		for (cudnnTensorDescriptor_t &each : desc)
			DNN(cudnnCreateTensorDescriptor(&each));
		for (int layer = 0; layer < spec.pseudoLayers(); layer++)
			for (int matrix = 0; matrix < 2 * gates + (spec.projection != 0); matrix++) {
				void *address[2] = {};
				DNN(cudnnGetRNNWeightParams(dnn.handle, rnn, layer, weightBytes, w->data(), matrix, desc[0],
				                            &address[0], desc[1], &address[1]));
				for (int i = 0; i < 2; i++) {
					cudnnDataType_t ignored;
					int rank, dims[3], strides[3];
					if (!address[i])
						continue;
					DNN(cudnnGetTensorNdDescriptor(desc[i], 3, &ignored, &rank, dims, strides));
					const auto first = static_cast<size_t>(static_cast<T *>(address[i]) - w->data());
					for (size_t at = 0; at < size(dims[1]) * size(dims[2]); at++)
						visit(first + at, i ? 4 : dims[2]);
				}
			}
		for (cudnnTensorDescriptor_t each : desc)
			DNN(cudnnDestroyTensorDescriptor(each));
	}

	const size_t vectors_;
	std::vector<T> before_;
	std::vector<bool> isWeight_;
	void *dropoutStates_ = nullptr;

public:
	Buffer<T> x, dx, y, dy, hx, hy, dhy, dhx, cx, cy, dcy, dcx;
	std::unique_ptr<Buffer<T>> w, dw;
	size_t weightBytes = 0, workBytes = 0, reserveBytes = 0;
	void *work = nullptr, *reserve = nullptr;
	int *devLengths = nullptr;
	cudnnDropoutDescriptor_t dropout = nullptr;
	cudnnRNNDescriptor_t rnn = nullptr;
	cudnnRNNDataDescriptor_t xDesc = nullptr, yDesc = nullptr;
	cudnnTensorDescriptor_t hDesc = nullptr, cDesc = nullptr;
};

// Each result against that of fp64, relative to the whole result.
void compare(Net<float> &net, Line &line)
{
	Net<double> exact(net.spec, net.dnn);
	exact.run();
	exact.download();
	for (int i = 0; i < resultCount; i++) {
		if (!net.has(i))
			continue;
		const Buffer<float> &got = net.result(i);
		std::vector<double> wanted, is;
		for (size_t at = 0; at < got.size(); at++) {
			if (net.isOwn(i, at))
				is.push_back(got[at]);
			else if (i == 6)
				line.require(Buffer<float>::isUntouched(got[at]), "between the weights something changed");
			else if (net.spec.fill != 0)
				line.require(got[at] == net.spec.fill, "padding does not have its fill value");
			else
				line.require(Buffer<float>::isUntouched(got[at]) || got[at] == 0, "padding was written");
		}
		const Buffer<double> &of = exact.result(i); // its weights may be at other addresses, in the same order
		for (size_t at = 0; at < of.size(); at++)
			if (exact.isOwn(i, at))
				wanted.push_back(of[at] - exact.before(i, at));
		std::vector<double> before;
		for (size_t at = 0; at < got.size(); at++)
			if (net.isOwn(i, at))
				before.push_back(net.before(i, at));
		line.require(wanted.size() == is.size(), "another number of elements");
		double error = 0, all = 0;
		for (size_t k = 0; k < std::min(wanted.size(), is.size()); k++) {
			const double off = is[k] - before[k] - wanted[k];
			error += off * off, all += wanted[k] * wanted[k];
		}
		line.put((std::string("eta_") + names[i]).c_str(), std::sqrt(error / all));
		line.require(got.isWholeOutside(), "memory outside of a result changed");
	}
}

void putBits(Net<float> &net, Line &line)
{
	for (int call = 0; call < 3; call++)
		line.bits((std::string(callNames[call]) + "_bits").c_str(), net.bits(call));
}

void plain(const Spec &spec, Line &line)
{
	DnnSession dnn;
	Net<float> net(spec, dnn);
	line.put("statuses", net.run());
	net.download();
	compare(net, line);
	putBits(net, line);
}

// With injected faults: no comparison, which would make its own calls; prints how often functions were called.
void sweep(Line &line)
{
	DnnSession dnn;
	Net<float> net({.name = "", .hidden = 16}, dnn);
	net.download();
	putBits(net, line);
	line.put("statuses", net.run());
	net.download();
	for (int call = 0; call < 3; call++)
		line.bits((std::string(callNames[call]) + "_after_bits").c_str(), net.bits(call));
	line.putCounts();
}

constexpr Spec table[] = {
    {.name = "lstm"},
    {.name = "gru", .cell = CUDNN_GRU},
    {.name = "tanh", .cell = CUDNN_RNN_TANH},
    {.name = "relu", .cell = CUDNN_RNN_RELU},
    {.name = "lstm_deep", .layers = 2},
    {.name = "lstm_both", .directions = 2},
    {.name = "gru_deep_both", .cell = CUDNN_GRU, .layers = 2, .directions = 2},
    {.name = "tanh_deep_both", .cell = CUDNN_RNN_TANH, .layers = 2, .directions = 2},
    {.name = "lstm_five_layers", .layers = 5, .directions = 2, .hidden = 8, .steps = 3},
    {.name = "lstm_odd", .input = 7, .hidden = 13, .batch = 3},
    {.name = "lstm_no_states", .hasStates = false},
    {.name = "lstm_no_bias", .bias = CUDNN_RNN_NO_BIAS},
    {.name = "gru_one_bias", .cell = CUDNN_GRU, .bias = CUDNN_RNN_SINGLE_INP_BIAS},
    {.name = "tanh_skip", .cell = CUDNN_RNN_TANH, .input = 32, .inputMode = CUDNN_SKIP_INPUT},
    {.name = "lstm_projected", .layers = 2, .projection = 20},
    {.name = "lstm_padded", .directions = 2, .lengths = Lengths::mixed},
    {.name = "gru_padded_filled", .cell = CUDNN_GRU, .lengths = Lengths::mixed, .fill = -1.5f},
    {.name = "lstm_batch_major",
     .layers = 2,
     .lengths = Lengths::mixed,
     .layout = CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED},
    {.name = "gru_packed",
     .cell = CUDNN_GRU,
     .lengths = Lengths::sorted,
     .layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED},
    {.name = "lstm_packed_both",
     .layers = 2,
     .directions = 2,
     .lengths = Lengths::sorted,
     .layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED},
    {.name = "lstm_dropout", .layers = 3, .dropout = 0.4f},
    {.name = "lstm_static", .algorithm = CUDNN_RNN_ALGO_PERSIST_STATIC, .isTraining = false},
    {.name = "lstm_inference", .layers = 2, .isTraining = false},
    {.name = "gru_inference", .cell = CUDNN_GRU, .lengths = Lengths::mixed, .isTraining = false},
};
// The test knows which calls are kept, and why.
constexpr Spec kept[] = {
    {.name = "kept.forbidden", .math = CUDNN_FMA_MATH},
    {.name = "kept.narrowed", .math = CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION},
    {.name = "kept.dynamic", .algorithm = CUDNN_RNN_ALGO_PERSIST_DYNAMIC},
    {.name = "kept.reserve", .algorithm = CUDNN_RNN_ALGO_PERSIST_STATIC},
    {.name = "kept.fill", .lengths = Lengths::mixed, .fill = -1.23456f},
};

// Opens a region in which nothing is lowered.
class Off
{
public:
	Off()
	{
		autoamp_region region = AUTOAMP_REGION;
		region.name = "off";
		region.enabled = 0;
		autoamp_enter(&region, &number_);
	}
	~Off() { autoamp_leave(number_); }
	Off(const Off &) = delete;

private:
	size_t number_ = 0;
};

// The policy changes between the forward and the backward pass, or before them: each call with lowering disabled, or
// not.
void changing(const char *off, Line &line)
{
	DnnSession dnn;
	Net<float> net({.name = "", .hidden = 40}, dnn);
	std::string statuses;
	for (int i = 0; off[i]; i++) {
		const int call = std::max(0, i - static_cast<int>(std::strlen(off)) + 3);
		std::optional<Off> region;
		if (off[i] == '0')
			region.emplace();
		statuses += std::to_string(net.call(call));
	}
	net.download();
	putBits(net, line);
	line.put("statuses", statuses);
}

// Another RNN on the same reserve space, which is lowered; then the first one's backward pass, whose own data is gone.
void another(Line &line)
{
	DnnSession dnn;
	Net<float> first({.name = "", .hidden = 24}, dnn), second({.name = "", .hidden = 48}, dnn);
	std::swap(first.reserve, second.reserve);
	std::swap(first.reserveBytes, second.reserveBytes);
	line.require(first.forward() == 0, "a call failed");
	std::swap(first.reserve, second.reserve);
	std::swap(first.reserveBytes, second.reserveBytes);
	line.require(second.run() == "0,0,0", "a call failed");
	second.download();
	compare(second, line);
}

// Calls that the vendor refuses.
void refused(Line &line)
{
	DnnSession dnn;
	const auto one = [&](const char *name, auto change) {
		Net<float> net({.name = ""}, dnn);
		const cudnnTensorDescriptor_t h = net.hDesc, c = net.cDesc;
		const cudnnRNNDataDescriptor_t x = net.xDesc, y = net.yDesc;
		std::string statuses = net.run() + ":";
		change(net);
		for (const int call : {2, 1, 0}) // while the reserve space has an entry
			statuses += std::to_string(net.call(call)) + (call ? "," : "");
		line.put(name, statuses);
		net.hDesc = h, net.cDesc = c, net.xDesc = x, net.yDesc = y;
		CHECK(cudaStreamSynchronize(dnn.stream));
	};
	one("h_statuses", [](Net<float> &net) { net.hDesc = nullptr; });
	one("c_statuses", [](Net<float> &net) { net.cDesc = nullptr; });
	one("y_statuses", [](Net<float> &net) { net.yDesc = net.xDesc; });
	one("swapped_statuses", [](Net<float> &net) { std::swap(net.xDesc, net.yDesc); });
	one("work_statuses", [](Net<float> &net) { net.workBytes = 16; });
	one("weights_statuses", [](Net<float> &net) { net.weightBytes /= 2; });
	one("last_weight_statuses", [](Net<float> &net) { net.weightBytes -= 4; });
	Net<float> longer({.name = "", .steps = 60}, dnn);
	one("steps_statuses", [&](Net<float> &net) { net.yDesc = longer.yDesc; });
	one("reserve_statuses", [](Net<float> &net) { net.reserveBytes /= 2; });
}

void replay(Net<float> &net, Line &line, bool isFirst)
{
	uint64_t eager[3] = {};
	if (!isFirst) {
		line.require(net.run() == "0,0,0", "a call failed");
		net.download();
		for (int i = 0; i < 3; i++)
			eager[i] = net.bits(i);
	}
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaStreamBeginCapture(net.dnn.stream, cudaStreamCaptureModeGlobal));
	line.put("statuses", net.run());
	CHECK(cudaStreamEndCapture(net.dnn.stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	Net<float> start(net.spec, net.dnn); // initial content of the results
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < resultCount; i++)
			CHECK(cudaMemcpy(net.result(i).data(), start.result(i).data(), start.result(i).size() * sizeof(float),
			                 cudaMemcpyDeviceToDevice));
		CHECK(cudaDeviceSynchronize());
		CHECK(cudaGraphLaunch(executable, net.dnn.stream));
		net.download();
		for (int i = 0; i < 3 && !isFirst; i++)
			line.require(net.bits(i) == eager[i], "a replay has other bits");
	}
	compare(net, line);
	CHECK(cudaGraphExecDestroy(executable));
}

// Captured and destroyed; then its reserve space belongs to an RNN that may not be rounded.
void exact(Line &line)
{
	DnnSession dnn;
	Net<float> captured({.name = "", .hidden = 22}, dnn), net({.name = "", .hidden = 22, .math = CUDNN_FMA_MATH}, dnn);
	Line ignored("");
	replay(captured, ignored, false);
	line.require(ignored.isOk(), "the captured net failed");
	std::swap(net.reserve, captured.reserve);
	line.put("statuses", net.run());
	net.download();
	compare(net, line);
	std::swap(net.reserve, captured.reserve);
}

void capture(bool isFirst, Line &line)
{
	DnnSession dnn;
	Net<float> net({.name = "", .cell = CUDNN_GRU, .layers = 2, .hidden = isFirst ? 18 : 20}, dnn);
	replay(net, line, isFirst);
}

// RNNs are made and destroyed all the time.
void memory(Line &line)
{
	DnnSession dnn;
	const auto some = [&](int times) {
		for (int i = 0; i < times; i++)
			line.require(Net<float>({.name = "", .input = 8, .hidden = 8, .steps = 2, .batch = 2}, dnn).run() ==
			                 "0,0,0",
			             "a call failed");
		CHECK(cudaDeviceSynchronize());
	};
	some(50);
	size_t before = 0, after = 0, total = 0;
	CHECK(cudaMemGetInfo(&before, &total));
	some(500);
	CHECK(cudaMemGetInfo(&after, &total));
	line.put("device", static_cast<long long>(before - after));
}

int runAll(int argc, char **argv)
{
	std::vector<Case> cases;
	for (const Spec &spec : table)
		cases.push_back({std::string("net.") + spec.name, [&](Line &line) { plain(spec, line); }});
	for (const Spec &spec : kept)
		cases.push_back({spec.name, [&](Line &line) { plain(spec, line); }});
	for (const char *const off : {"111", "000", "011", "100", "101", "1011", "0100"})
		cases.push_back({std::string("changing.") + off, [off](Line &line) { changing(off, line); }});
	cases.push_back({"another", another});
	cases.push_back({"refused", refused});
	cases.push_back({"exact", exact});
	cases.push_back({"capture", [](Line &line) { capture(false, line); }});
	cases.push_back({"capture_first", [](Line &line) { capture(true, line); }});
	cases.push_back({"memory", memory});
	cases.push_back({"sweep", sweep});
	return runCases(argc, argv, cases);
}

} // namespace

int main(int argc, char **argv)
{
	return runAll(argc, argv);
}
