// Convolutions of dense data on the CPU, in all three directions. Any thread. Operands are converted by im2col and
// multiplied by the arithmetic library of the emulated cuBLAS, which contains OpenBLAS.
#pragma once

#include "tools/emulated/blas/product.h"
#include "tools/emulated/cudnn/dnn/tensor.h"

namespace emulated::dnn {

enum class Direction { forward, backwardData, backwardFilter };

struct Convolution {
	Direction direction = Direction::forward;
	int spatial = 2;
	int64_t prePad[6] = {}, postPad[6] = {}, stride[6] = {1, 1, 1, 1, 1, 1}, dilation[6] = {1, 1, 1, 1, 1, 1};
	int64_t groups = 1;
	bool isFlipped = false; // CUDNN_CONVOLUTION

	// The output extent for these extents of an image and a filter; not positive: empty.
	int64_t outputExtent(int i, int64_t image, int64_t filter) const
	{
		const int64_t room = image + prePad[i] + postPad[i] - dilation[i] * (filter - 1) - 1;
		return room < 0 ? 0 : room / stride[i] + 1;
	}
};

// forward: first x, second w, result y. backwardData: w, dy -> dx. backwardFilter: x, dy -> dw. Operands are read with
// their strides and types; fp32 operands are rounded first. Sums are in T (float or double). `dense` has the order N,
// C, spatial.
template <typename T>
EMULATED_EXPORT void convolve(const Convolution &convolution, const Tensor &first, const void *firstData,
                              const Tensor &second, const void *secondData, const Tensor &result, T *dense,
                              Rounding rounding = Rounding::None);

// Rounding of fp32 operands on tensor cores, unless NVIDIA_TF32_OVERRIDE forbids it.
inline Rounding tensorCoreRounding()
{
	return blas::roundingOf(CUBLAS_COMPUTE_32F_FAST_TF32);
}

} // namespace emulated::dnn
