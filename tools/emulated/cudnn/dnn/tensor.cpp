#include "tools/emulated/cudnn/dnn/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace emulated::dnn {

namespace {

// Calls function() with a value of the C++ type; 16-bit floats have none.
template <typename Function>
bool inPlace(cudnnDataType_t type, Function function)
{
	switch (type) {
	case CUDNN_DATA_FLOAT:
		function(float{});
		return true;
	case CUDNN_DATA_DOUBLE:
		function(double{});
		return true;
	case CUDNN_DATA_INT8:
		function(int8_t{});
		return true;
	case CUDNN_DATA_UINT8:
	case CUDNN_DATA_BOOLEAN:
		function(uint8_t{});
		return true;
	case CUDNN_DATA_INT32:
		function(int32_t{});
		return true;
	case CUDNN_DATA_INT64:
		function(int64_t{});
		return true;
	default:
		return false;
	}
}

cudaDataType narrow(cudnnDataType_t type)
{
	return type == CUDNN_DATA_HALF ? CUDA_R_16F : CUDA_R_16BF;
}

// Calls function() with the offset of each element, in the order of the dense form.
template <typename Function>
void eachOffset(const Tensor &tensor, Function function)
{
	if (tensor.count() == 0)
		return;
	int64_t at[maxRank] = {}, offset = 0;
	const int last = tensor.rank - 1;
	if (last < 0)
		return function(0);
	for (;;) {
		for (int64_t i = 0; i < tensor.dims[last]; ++i)
			function(offset + i * tensor.strides[last]);
		int d = last - 1;
		for (; d >= 0; --d) {
			offset += tensor.strides[d];
			if (++at[d] < tensor.dims[d])
				break;
			offset -= at[d] * tensor.strides[d];
			at[d] = 0;
		}
		if (d < 0)
			return;
	}
}

template <typename Stored, typename T>
Stored saturated(T value)
{
	if constexpr (std::is_floating_point_v<Stored>) {
		return static_cast<Stored>(value);
	} else {
		const double rounded = std::nearbyint(static_cast<double>(value));
		constexpr auto least = static_cast<double>(std::numeric_limits<Stored>::min());
		constexpr auto most = static_cast<double>(std::numeric_limits<Stored>::max());
		return !(rounded > least) ? std::numeric_limits<Stored>::min()
		       : rounded >= most  ? std::numeric_limits<Stored>::max()
		                          : static_cast<Stored>(rounded);
	}
}

} // namespace

size_t sizeOf(cudnnDataType_t type)
{
	size_t size = 0;
	if (inPlace(type, [&](auto number) { size = sizeof number; }))
		return size;
	return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 ? 2 : 0;
}

Tensor packed(cudnnDataType_t type, int rank, const int64_t *dims)
{
	Tensor tensor{type, rank, {}, {}};
	std::copy(dims, dims + rank, tensor.dims);
	for (int i = 0; i < rank; ++i)
		tensor.strides[i] = tensor.countFrom(i + 1);
	return tensor;
}

template <typename T>
void load(const Tensor &tensor, const void *data, T *dense, Rounding rounding)
{
	T *to = dense;
	const bool isWide = inPlace(tensor.type, [&]<typename Stored>(Stored) {
		const auto *stored = static_cast<const Stored *>(data);
		eachOffset(tensor, [&](int64_t offset) { *to++ = static_cast<T>(stored[offset]); });
	});
	const auto count = static_cast<size_t>(tensor.count());
	if (!isWide) {
		std::vector<uint16_t> bits;
		bits.reserve(count);
		const auto *stored = static_cast<const uint16_t *>(data);
		eachOffset(tensor, [&](int64_t offset) { bits.push_back(stored[offset]); });
		std::vector<float> wide(count);
		blas::widen(narrow(tensor.type), bits.data(), wide.data(), count);
		std::copy(wide.begin(), wide.end(), dense);
	}
	if constexpr (std::is_same_v<T, float>)
		if (tensor.type == CUDNN_DATA_FLOAT)
			blas::round(rounding, dense, count);
}

template <typename T>
void store(const T *dense, const Tensor &tensor, void *data)
{
	const T *from = dense;
	const bool isWide = inPlace(tensor.type, [&]<typename Stored>(Stored) {
		auto *stored = static_cast<Stored *>(data);
		eachOffset(tensor, [&](int64_t offset) { stored[offset] = saturated<Stored>(*from++); });
	});
	if (isWide)
		return;
	const auto count = static_cast<size_t>(tensor.count());
	std::vector<float> wide(dense, dense + count);
	std::vector<uint16_t> bits(count);
	blas::store(narrow(tensor.type), wide.data(), bits.data(), count);
	const uint16_t *next = bits.data();
	auto *stored = static_cast<uint16_t *>(data);
	eachOffset(tensor, [&](int64_t offset) { stored[offset] = *next++; });
}

#define OF_TYPE(T)                                                                                                     \
	template void load(const Tensor &, const void *, T *, Rounding);                                                   \
	template void store(const T *, const Tensor &, void *);
OF_TYPE(float)
OF_TYPE(double)
#undef OF_TYPE

} // namespace emulated::dnn
