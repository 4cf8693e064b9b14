// Convolutions of dense data on the CPU, in all three directions. Any thread.
// A loaded operand is im2col'ed and multiplied by the arithmetic library of the emulated cuBLAS, which holds OpenBLAS.
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

	// Of an image and a filter of these extents; not positive: empty.
	int64_t outputExtent(int i, int64_t image, int64_t filter) const
	{
		const int64_t room = image + prePad[i] + postPad[i] - dilation[i] * (filter - 1) - 1;
		return room < 0 ? 0 : room / stride[i] + 1;
	}
};

// forward: first x, second w, result y. backwardData: w, dy -> dx. backwardFilter: x, dy -> dw. Operands are read at
// their strides and in their type, fp32 ones rounded first; sums are in T (float or double); `dense` is N, C, spatial.
template <typename T>
EMULATED_EXPORT void convolve(const Convolution &convolution, const Tensor &first, const void *firstData,
                              const Tensor &second, const void *secondData, const Tensor &result, T *dense,
                              Rounding rounding = Rounding::None);

// How tensor cores round fp32 operands, unless NVIDIA_TF32_OVERRIDE forbids it.
inline Rounding tensorCoreRounding()
{
	return blas::roundingOf(CUBLAS_COMPUTE_32F_FAST_TF32);
}

} // namespace emulated::dnn
