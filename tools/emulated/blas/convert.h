// Numbers as the device stores them: widened for the CPU's arithmetic, rounded (to nearest even) for storage. Any
// thread. Nothing saturates: what is too large becomes Inf, NaN stays NaN, subnormals stay.
#pragma once

#include "tools/emulated/device/device.h"

#include <library_types.h>

#include <cstddef>

namespace emulated::blas {

// How fp32 operands are rounded before they are multiplied.
enum class Rounding { None, Tf32, Half, Bfloat16 };

EMULATED_EXPORT size_t sizeOf(cudaDataType type); // 0: not emulated
void widen(cudaDataType type, const void *from, float *to, size_t count);
void widen(cudaDataType type, const void *from, double *to, size_t count);
void store(cudaDataType type, const float *from, void *to, size_t count);
void store(cudaDataType type, const double *from, void *to, size_t count);
void round(Rounding rounding, float *values, size_t count);

} // namespace emulated::blas
