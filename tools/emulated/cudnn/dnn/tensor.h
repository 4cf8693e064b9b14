// A tensor as in cuDNN. Its numbers are read into a dense form (last dimension fastest) and stored with its strides and
// one rounding. Any thread. Padding between strides is neither read nor written.
#pragma once

#include "tools/emulated/blas/convert.h"

#include <cudnn_graph.h>

#include <algorithm>
#include <vector>

namespace emulated::dnn {

using blas::Rounding;

constexpr int maxRank = CUDNN_DIM_MAX;

EMULATED_EXPORT size_t sizeOf(cudnnDataType_t type); // 0: not emulated

struct Tensor {
	cudnnDataType_t type = CUDNN_DATA_FLOAT;
	int rank = 0;
	int64_t dims[maxRank] = {}; // N, C, spatial...; for a filter K, C / groups, spatial...
	int64_t strides[maxRank] = {};

	int64_t count() const
	{
		int64_t product = 1;
		for (int i = 0; i < rank; ++i)
			product *= dims[i];
		return product;
	}
	// Number of elements in the dimensions from `from` on.
	int64_t countFrom(int from) const
	{
		int64_t product = 1;
		for (int i = from; i < rank; ++i)
			product *= dims[i];
		return product;
	}
	// The extent of the tensor before and after its first element; negative strides extend before it.
	int64_t before() const
	{
		int64_t elements = 0;
		for (int i = 0; i < rank; ++i)
			elements += strides[i] < 0 ? (1 - dims[i]) * strides[i] : 0;
		return elements;
	}
	int64_t after() const
	{
		int64_t elements = 0;
		for (int i = 0; i < rank; ++i)
			elements += strides[i] > 0 ? (dims[i] - 1) * strides[i] : 0;
		return elements;
	}
	bool hasSameDims(const Tensor &other) const
	{
		return rank == other.rank && std::equal(dims, dims + rank, other.dims);
	}
	bool isSame(const Tensor &other) const
	{
		return type == other.type && hasSameDims(other) && std::equal(strides, strides + rank, other.strides);
	}
};

// A packed tensor; the last dimension is fastest.
EMULATED_EXPORT Tensor packed(cudnnDataType_t type, int rank, const int64_t *dims);

// T is float or double; the CPU must be able to read `data`. Only fp32 data is rounded.
template <typename T>
EMULATED_EXPORT void load(const Tensor &tensor, const void *data, T *dense, Rounding rounding = Rounding::None);
template <typename T>
EMULATED_EXPORT void store(const T *dense, const Tensor &tensor, void *data);

} // namespace emulated::dnn
