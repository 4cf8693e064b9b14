// Conversions between storage types and the CPU's arithmetic; stores round to nearest even. Any thread. Nothing
// saturates: values that are too large become Inf; NaN and subnormals are preserved.
#pragma once

#include "tools/emulated/device/device.h"

#include <library_types.h>

#include <complex>
#include <cstddef>
#include <cstring>

namespace emulated::blas {

constexpr auto noType = static_cast<cudaDataType>(-1);

// Rounding of fp32 operands before the multiplication.
enum class Rounding { None, Tf32, Half, Bfloat16 };

EMULATED_EXPORT size_t sizeOf(cudaDataType type); // 0: not emulated
// Reads one number; integer types are supported too.
EMULATED_EXPORT std::complex<double> numberAt(cudaDataType type, const void *address);
EMULATED_EXPORT void putNumber(cudaDataType type, std::complex<double> number, void *address);
EMULATED_EXPORT void widen(cudaDataType type, const void *from, float *to, size_t count);
EMULATED_EXPORT void store(cudaDataType type, const float *from, void *to, size_t count);
EMULATED_EXPORT void round(Rounding rounding, float *values, size_t count);

template <typename T>
constexpr bool isComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// Converts a number to an element type; a real type drops the imaginary part.
template <typename T, typename From>
T as(From value)
{
	if constexpr (isComplex<From> && !isComplex<T>)
		return static_cast<T>(value.real());
	else
		return static_cast<T>(value);
}

// Calls function() with a value of the type if products can accumulate in it. Else returns false.
template <typename Function>
bool inType(cudaDataType type, Function function)
{
	if (type == CUDA_R_32F)
		function(float{});
	else if (type == CUDA_R_64F)
		function(double{});
	else if (type == CUDA_C_32F)
		function(std::complex<float>{});
	else if (type == CUDA_C_64F)
		function(std::complex<double>{});
	else
		return false;
	return true;
}

// Products in other types than fp32 have operands and results of that type only.
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
