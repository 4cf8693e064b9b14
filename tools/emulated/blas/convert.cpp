#include "tools/emulated/blas/convert.h"

#include <immintrin.h>

#include <bit>
#include <cstdint>

namespace emulated::blas {

namespace {

const bool hasF16c = __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx");

__attribute__((target("avx,f16c"))) size_t widenHalfFast(const uint16_t *from, float *to, size_t count)
{
	size_t i = 0;
	for (; i + 8 <= count; i += 8)
		_mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from + i))));
	return i;
}

__attribute__((target("avx,f16c"))) size_t narrowHalfFast(const float *from, uint16_t *to, size_t count)
{
	size_t i = 0;
	for (; i + 8 <= count; i += 8)
		_mm_storeu_si128(reinterpret_cast<__m128i *>(to + i),
		                 _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
	return i;
}

void widenHalf(const void *from, float *to, size_t count)
{
	const auto *halves = static_cast<const uint16_t *>(from);
	for (size_t i = hasF16c ? widenHalfFast(halves, to, count) : 0; i < count; ++i)
		to[i] = static_cast<float>(std::bit_cast<_Float16>(halves[i]));
}

void narrowHalf(const float *from, void *to, size_t count)
{
	auto *halves = static_cast<uint16_t *>(to);
	for (size_t i = hasF16c ? narrowHalfFast(from, halves, count) : 0; i < count; ++i)
		halves[i] = std::bit_cast<uint16_t>(static_cast<_Float16>(from[i]));
}

// The bits of a float after rounding away the lower `Dropped` ones. Inf and NaN are preserved.
template <int Dropped>
uint32_t roundedBits(float value)
{
	uint32_t bits = std::bit_cast<uint32_t>(value);
	uint32_t special = bits | ((bits & 0x007fffffu) != 0 ? 0x00400000u : 0u);
	uint32_t nearest = bits + ((1u << (Dropped - 1)) - 1) + ((bits >> Dropped) & 1u);
	return ((bits & 0x7f800000u) == 0x7f800000u ? special : nearest) & ~((1u << Dropped) - 1);
}

template <int Dropped>
void roundBits(float *values, size_t count)
{
	for (size_t i = 0; i < count; ++i)
		values[i] = std::bit_cast<float>(roundedBits<Dropped>(values[i]));
}

// Like inType(), for integers too.
template <typename Function>
bool inPlace(cudaDataType type, Function function)
{
	if (type == CUDA_R_32I)
		function(int32_t{});
	else if (type == CUDA_R_64I)
		function(int64_t{});
	else
		return inType(type, function);
	return true;
}

} // namespace

size_t sizeOf(cudaDataType type)
{
	switch (type) {
	case CUDA_R_16F:
	case CUDA_R_16BF:
		return 2;
	case CUDA_R_32F:
	case CUDA_R_32I:
		return 4;
	case CUDA_R_64F:
	case CUDA_R_64I:
	case CUDA_C_32F:
		return 8;
	case CUDA_C_64F:
		return 16;
	default:
		return 0;
	}
}

void widen(cudaDataType type, const void *from, float *to, size_t count)
{
	if (type == CUDA_R_16F) {
		widenHalf(from, to, count);
	} else if (type == CUDA_R_16BF) {
		const auto *values = static_cast<const uint16_t *>(from);
		for (size_t i = 0; i < count; ++i)
			to[i] = std::bit_cast<float>(static_cast<uint32_t>(values[i]) << 16);
	} else {
		std::memcpy(to, from, count * sizeof(float));
	}
}

std::complex<double> numberAt(cudaDataType type, const void *address)
{
	std::complex<double> number;
	auto read = [&]<typename T>(T) { number = as<std::complex<double>>(*static_cast<const T *>(address)); };
	if (!inPlace(type, read)) {
		float value;
		widen(type, address, &value, 1);
		number = value;
	}
	return number;
}

void putNumber(cudaDataType type, std::complex<double> number, void *address)
{
	const auto value = as<float>(number);
	if (!inPlace(type, [&]<typename T>(T) { *static_cast<T *>(address) = as<T>(number); }))
		store(type, &value, address, 1);
}

void store(cudaDataType type, const float *from, void *to, size_t count)
{
	if (type == CUDA_R_16F) {
		narrowHalf(from, to, count);
	} else if (type == CUDA_R_16BF) {
		auto *values = static_cast<uint16_t *>(to);
		for (size_t i = 0; i < count; ++i)
			values[i] = static_cast<uint16_t>(roundedBits<16>(from[i]) >> 16);
	} else {
		std::memcpy(to, from, count * sizeof(float));
	}
}

void round(Rounding rounding, float *values, size_t count)
{
	if (rounding == Rounding::Tf32) {
		roundBits<13>(values, count);
	} else if (rounding == Rounding::Bfloat16) {
		roundBits<16>(values, count);
	} else if (rounding == Rounding::Half) {
		uint16_t halves[512];
		for (size_t i = 0; i < count; i += std::size(halves)) {
			size_t part = count - i < std::size(halves) ? count - i : std::size(halves);
			narrowHalf(values + i, halves, part);
			widenHalf(halves, values + i, part);
		}
	}
}

} // namespace emulated::blas
