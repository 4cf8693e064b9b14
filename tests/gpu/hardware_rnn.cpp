// cuDNN recurrent networks: TF32, descriptors, the reserve space.
#include "hardware_cudnn.h"

#include <bit>

namespace hardware {
namespace {

// An LSTM with both passes. Data is random, and in bfloat16 of two elements in a float.
class Net
{
public:
	Net(const DnnSession &on, cudnnDataType_t type, cudnnMathType_t math) : dnn(on), type_(type)
	{
		DNN(cudnnCreateRNNDescriptor, &rnn);
		DNN(cudnnCreateRNNDataDescriptor, &data);
		DNN(cudnnCreateTensorDescriptor, &state);
		DNN(cudnnCreateDropoutDescriptor, &dropout);
		DNN(cudnnSetDropoutDescriptor, dropout, dnn.handle, 0, nullptr, 0, 0);
		DNN(cudnnSetRNNDescriptor_v8, rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS,
		    CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, type, CUDNN_DATA_FLOAT, math, width, width, width, 1, dropout,
		    CUDNN_RNN_PADDED_IO_ENABLED);
		const std::vector<int> lengths(batch, steps);
		DNN(cudnnSetRNNDataDescriptor, data, type, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, steps, batch, width,
		    lengths.data(), nullptr);
		const int dims[] = {1, batch, width}, strides[] = {batch * width, width, 1};
		DNN(cudnnSetTensorNdDescriptor, state, type, 3, dims, strides);
		DNN(cudnnGetRNNWeightSpaceSize, dnn.handle, rnn, &weightBytes);
		DNN(cudnnGetRNNTempSpaceSizes, dnn.handle, rnn, CUDNN_FWD_MODE_TRAINING, data, &workBytes, &reserveBytes);
		const size_t floats = size_t(steps) * batch * width * (type == CUDNN_DATA_FLOAT ? 4 : 2) / 4;
		for (Array *const array : {&x, &y, &dx, &dy})
			*array = Array(floats);
		for (Array *const array : {&w, &dw})
			*array = Array(weightBytes / 4);
		work = Array(workBytes / 4 + 1);
		Random random(1);
		for (Array *const array : {&x, &dy, &w, &dw})
			for (size_t i = 0; i < array->size(); i++)
				(*array)[i] = array == &dw ? 0 : value(random, array == &w ? 0.05 : 1);
		for (const Array *const array : {&x, &y, &dx, &dy, &w, &dw})
			array->upload();
		CHECK(cudaMalloc(reinterpret_cast<void **>(&lengths_), sizeof(int) * batch));
		CHECK(cudaMemcpy(lengths_, lengths.data(), sizeof(int) * batch, cudaMemcpyHostToDevice));
	}
	~Net()
	{
		destroyDescriptors();
		cudaFree(lengths_);
	}
	Net(const Net &) = delete;

	void destroyDescriptors()
	{
		if (!rnn)
			return;
		DNN(cudnnDestroyRNNDescriptor, rnn);
		DNN(cudnnDestroyRNNDataDescriptor, data);
		DNN(cudnnDestroyTensorDescriptor, state);
		DNN(cudnnDestroyDropoutDescriptor, dropout);
		rnn = nullptr;
	}
	void forward(void *reserve)
	{
		DNN(cudnnRNNForward, dnn.handle, rnn, CUDNN_FWD_MODE_TRAINING, lengths_, data, x.data(), data, y.data(), state,
		    nullptr, nullptr, state, nullptr, nullptr, weightBytes, w.data(), workBytes, work.data(), reserveBytes,
		    reserve);
	}
	void backward(void *reserve)
	{
		DNN(cudnnRNNBackwardData_v8, dnn.handle, rnn, lengths_, data, y.data(), dy.data(), data, dx.data(), state,
		    nullptr, nullptr, nullptr, state, nullptr, nullptr, nullptr, weightBytes, w.data(), workBytes, work.data(),
		    reserveBytes, reserve);
		DNN(cudnnRNNBackwardWeights_v8, dnn.handle, rnn, CUDNN_WGRAD_MODE_ADD, lengths_, data, x.data(), state, nullptr,
		    data, y.data(), weightBytes, dw.data(), workBytes, work.data(), reserveBytes, reserve);
	}
	std::vector<float> result()
	{
		CHECK(cudaStreamSynchronize(dnn.stream));
		y.download();
		std::vector<float> all(y.size());
		for (size_t i = 0; i < all.size(); i++)
			all[i] = y[i];
		return all;
	}
	uint64_t bits() // of all results
	{
		CHECK(cudaStreamSynchronize(dnn.stream));
		uint64_t all = 0;
		for (Array *const array : {&y, &dx, &dw}) {
			array->download();
			all = all * 31 + array->bits();
		}
		return all;
	}

	static constexpr int steps = 5, batch = 16, width = 128;
	const DnnSession &dnn;
	cudnnRNNDescriptor_t rnn = nullptr;
	cudnnRNNDataDescriptor_t data = nullptr;
	cudnnTensorDescriptor_t state = nullptr;
	cudnnDropoutDescriptor_t dropout = nullptr;
	size_t weightBytes = 0, workBytes = 0, reserveBytes = 0;
	Array x{0}, y{0}, dx{0}, dy{0}, w{0}, dw{0}, work{0};

private:
	float value(Random &random, double size) const
	{
		const auto one = [&] { return std::bit_cast<uint32_t>(static_cast<float>(random.gaussian() * size)); };
		return std::bit_cast<float>(type_ == CUDNN_DATA_FLOAT ? one() : (one() & 0xffff0000u) | one() >> 16);
	}
	const cudnnDataType_t type_;
	int *lengths_ = nullptr;
};

std::string rnnIsTf32(Line &line)
{
	if (!library())
		return absent;
	const DnnSession dnn;
	std::vector<float> results[2];
	for (const auto math : {CUDNN_DEFAULT_MATH, CUDNN_FMA_MATH}) {
		Net net(dnn, CUDNN_DATA_FLOAT, math);
		Array reserve(net.reserveBytes / 4 + 1);
		net.forward(reserve.data());
		results[math == CUDNN_FMA_MATH] = net.result();
	}
	const double error = difference(results[0], results[1]);
	line.put("difference", error);
	return answer(error > fp32Error);
}

std::string rnnDescriptorsAreFree(Line &line)
{
	if (!library())
		return absent;
	const DnnSession dnn;
	std::vector<float> results[2];
	for (const bool isEarly : {false, true}) {
		Net net(dnn, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH);
		Array reserve(net.reserveBytes / 4 + 1);
		if (!isEarly) {
			net.forward(reserve.data());
		} else {
			Gate gate(dnn.stream);
			net.forward(reserve.data());
			net.destroyDescriptors();
			const Net other(dnn, CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH); // may get the same memory
			line.put("waited", gate.hasExpired()); // then the call itself has waited for its end
		}
		results[isEarly] = net.result();
	}
	return answer(results[0] == results[1]);
}

// Both passes in bfloat16, in a reserve space of the reported size and in a larger one.
std::string rnnReserveSuffices(Line &line)
{
	if (!library())
		return absent;
	const DnnSession dnn;
	const Net fp32(dnn, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH);
	uint64_t bits[2] = {};
	bool isWhole = true;
	size_t bytes = 0;
	for (const bool isExact : {false, true}) {
		Net net(dnn, CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH);
		bytes = net.reserveBytes;
		Array reserve(isExact ? bytes / 4 : bytes); // NaN at first, and around it
		reserve.upload();
		net.forward(reserve.data());
		net.backward(reserve.data());
		bits[isExact] = net.bits();
		reserve.download();
		if (isExact)
			isWhole = bytes % 4 == 0 && reserve.isWholeOutside(std::vector<bool>(reserve.size(), true));
	}
	line.put("fp32", static_cast<long long>(fp32.reserveBytes)).put("bfloat16", static_cast<long long>(bytes));
	return answer(isWhole && bits[0] == bits[1]);
}

// autoamp makes descriptors of its own for each call.
std::string rnnDescriptorsKeepNothing(Line &line)
{
	if (!library())
		return absent;
	const DnnSession dnn;
	size_t before = 0, after = 0, total = 0;
	for (int i = 0; i < 60; i++) {
		if (i == 20) // kernels are loaded
			CHECK(cudaMemGetInfo(&before, &total));
		Net net(dnn, CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH);
		Array reserve(net.reserveBytes / 4 + 1);
		net.forward(reserve.data());
		net.backward(reserve.data());
		CHECK(cudaStreamSynchronize(dnn.stream));
	}
	CHECK(cudaMemGetInfo(&after, &total));
	const long long grown = static_cast<long long>(before) - static_cast<long long>(after);
	line.put("grown", grown);
	return answer(grown < 4 << 20);
}

} // namespace

Rows rnnRows()
{
	return {
	    {"rnn.default_math_is_tf32", yes, recorded, shared, rnnIsTf32},
	    {"rnn.descriptors_may_be_destroyed_after_the_call", yes, needed, shared, rnnDescriptorsAreFree},
	    {"rnn.in_bfloat16_stays_in_its_reserve_space", yes, needed, shared, rnnReserveSuffices},
	    {"rnn.descriptors_keep_no_device_memory", yes, recorded, shared, rnnDescriptorsKeepNothing},
	};
}

} // namespace hardware
