// Shared by the tests of the emulated cuDNN: handles, tensors in any layout and type, numbers read back as doubles.
// Main thread only.
#pragma once

#include "tests/emulated/blas/fixture.h"

#include <cudnn.h>

#include <functional>

#define OK(call) CHECK((call) == CUDNN_STATUS_SUCCESS)

struct Dnn {
	cudnnHandle_t handle = nullptr;
	Dnn() { REQUIRE(cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS); }
	Dnn(const Dnn &) = delete;
	Dnn &operator=(const Dnn &) = delete;
	~Dnn() { cudnnDestroy(handle); }
	operator cudnnHandle_t() const { return handle; }
};

// A descriptor that is destroyed with its scope.
template <typename T, cudnnStatus_t (*create)(T *), cudnnStatus_t (*destroy)(T)>
struct Described {
	T descriptor = nullptr;
	Described() { REQUIRE(create(&descriptor) == CUDNN_STATUS_SUCCESS); }
	Described(const Described &) = delete;
	Described &operator=(const Described &) = delete;
	~Described() { destroy(descriptor); }
	operator T() const { return descriptor; }
};
#define DESCRIBED(kind)                                                                                                \
	Described<cudnn##kind##Descriptor_t, cudnnCreate##kind##Descriptor, cudnnDestroy##kind##Descriptor>

inline size_t bytesOf(cudnnDataType_t type)
{
	return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_INT32 ? 4 : 2;
}

inline double stored(cudnnDataType_t type, const void *at)
{
	return type == CUDNN_DATA_DOUBLE  ? *static_cast<const double *>(at)
	       : type == CUDNN_DATA_FLOAT ? *static_cast<const float *>(at)
	       : type == CUDNN_DATA_HALF  ? __half2float(*static_cast<const __half *>(at))
	       : type == CUDNN_DATA_INT32 ? *static_cast<const int32_t *>(at)
	                                  : __bfloat162float(*static_cast<const __nv_bfloat16 *>(at));
}

inline void store(cudnnDataType_t type, double value, void *at)
{
	if (type == CUDNN_DATA_DOUBLE)
		*static_cast<double *>(at) = value;
	else if (type == CUDNN_DATA_FLOAT)
		*static_cast<float *>(at) = static_cast<float>(value);
	else if (type == CUDNN_DATA_HALF)
		*static_cast<__half *>(at) = __float2half_rn(static_cast<float>(value));
	else
		*static_cast<__nv_bfloat16 *>(at) = __float2bfloat16_rn(static_cast<float>(value));
}

enum class Layout { nchw, nhwc, padded, mixed };

// Half a unit in the last place of a type, relative.
inline double roundoff(cudnnDataType_t type)
{
	return type == CUDNN_DATA_DOUBLE  ? 0x1p-53
	       : type == CUDNN_DATA_FLOAT ? 0x1p-24
	       : type == CUDNN_DATA_HALF  ? 0x1p-11
	                                  : 0x1p-8;
}

// A tensor in device memory whose numbers are all known. The elements between them are `gap`.
struct Numbers {
	static constexpr double gap = -77;
	cudnnDataType_t type;
	std::vector<int> dims, strides;
	std::vector<unsigned char> bytes;
	unsigned char *device = nullptr;
	DESCRIBED(Tensor) tensor;

	Numbers(cudnnDataType_t t, Layout layout, std::vector<int> d, const std::function<double()> &next)
	    : type(t), dims(d)
	{
		const int rank = static_cast<int>(d.size());
		std::vector<int> order(rank); // the fastest dimension first
		for (int i = 0; i < rank; ++i)
			order[i] = rank - 1 - i;
		if (layout == Layout::nhwc)
			std::rotate(order.begin(), order.end() - 2, order.end() - 1);
		if (layout == Layout::mixed)
			std::swap(order[0], order[rank - 1]);
		strides.resize(rank);
		int step = layout == Layout::padded ? 2 : 1;
		for (int one : order) {
			strides[one] = step;
			step = step * d[one] + (layout == Layout::padded ? 3 : 0);
		}
		bytes.resize((1 + at(count() - 1)) * bytesOf(t));
		for (size_t i = 0; i < bytes.size(); i += bytesOf(t))
			store(t, gap, &bytes[i]);
		for (int i = 0; i < count(); ++i)
			store(t, next(), &bytes[at(i) * bytesOf(t)]);
		REQUIRE(cudnnSetTensorNdDescriptor(tensor, t, rank, dims.data(), strides.data()) == CUDNN_STATUS_SUCCESS);
		REQUIRE(cudaMalloc(reinterpret_cast<void **>(&device), bytes.size()) == cudaSuccess);
		upload();
	}
	Numbers(const Numbers &) = delete;
	Numbers &operator=(const Numbers &) = delete;
	~Numbers() { cudaFree(device); }

	int count() const
	{
		int product = 1;
		for (int extent : dims)
			product *= extent;
		return product;
	}
	// The element with a given index, in order.
	size_t at(int index) const
	{
		size_t element = 0;
		for (int i = static_cast<int>(dims.size()) - 1; i >= 0; --i) {
			element += static_cast<size_t>(index % dims[i]) * strides[i];
			index /= dims[i];
		}
		return element;
	}
	double operator[](int index) const { return stored(type, &bytes[at(index) * bytesOf(type)]); }
	std::vector<double> values() const
	{
		std::vector<double> all(count());
		for (int i = 0; i < count(); ++i)
			all[i] = (*this)[i];
		return all;
	}
	void fill(double value)
	{
		for (int i = 0; i < count(); ++i)
			store(type, value, &bytes[at(i) * bytesOf(type)]);
		upload();
	}
	void upload() const
	{
		CHECK(cudaMemcpy(device, bytes.data(), bytes.size(), cudaMemcpyHostToDevice) == cudaSuccess);
	}
	// Reads back from the device; false if an element between the numbers was written.
	bool download()
	{
		CHECK(cudaDeviceSynchronize() == cudaSuccess);
		CHECK(cudaMemcpy(bytes.data(), device, bytes.size(), cudaMemcpyDeviceToHost) == cudaSuccess);
		std::vector<bool> isNumber(bytes.size() / bytesOf(type));
		for (int i = 0; i < count(); ++i)
			isNumber[at(i)] = true;
		for (size_t i = 0; i < isNumber.size(); ++i)
			if (!isNumber[i] && stored(type, &bytes[i * bytesOf(type)]) != gap)
				return false;
		return true;
	}
};

// Numbers of either sign around 1.
inline std::function<double()> gaussian(unsigned seed)
{
	return
	    [engine = std::mt19937(seed), normal = std::normal_distribution<double>()]() mutable { return normal(engine); };
}
