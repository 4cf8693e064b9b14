// Numbers as the device stores them: widened for the CPU's arithmetic, rounded (to nearest even) for storage. Any
// thread. Nothing saturates: what is too large becomes Inf, NaN stays NaN, subnormals stay.
#pragma once

#include "tools/emulated/device/device.h"

#include <library_types.h>

#include <complex>
#include <cstddef>
#include <cstring>

namespace emulated::blas {

// How fp32 operands are rounded before they are multiplied.
enum class Rounding { None, Tf32, Half, Bfloat16 };

EMULATED_EXPORT size_t sizeOf(cudaDataType type); // 0: not emulated
EMULATED_EXPORT std::complex<double> numberAt(cudaDataType type, const void *address);
void widen(cudaDataType type, const void *from, float *to, size_t count);
void store(cudaDataType type, const float *from, void *to, size_t count);
void round(Rounding rounding, float *values, size_t count);

// Other products than those of fp32 have operands and results of their own type only.
template <typename T>
void widen(cudaDataType, const void *from, T *to, size_t count)
{
	std::memcpy(to, from, count * sizeof(T));
}
template <typename T>
void store(cudaDataType, const T *from, void *to, size_t count)
{
	std::memcpy(to, from, count * sizeof(T));
}

} // namespace emulated::blas
