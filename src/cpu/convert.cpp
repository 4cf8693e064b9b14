#include "src/cpu/convert.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // g++ 12 reports its own intrinsics

// The rest of the library runs on any x86-64.
#define AUTOAMP_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

namespace autoamp::cpu {

namespace {

// Integer arithmetic: vcvtne2ps2bf16 reads denormals as zero and rounds large finite values to Inf.
AUTOAMP_AVX512 inline __m256i convertExactly(__m512i bits)
{
	const __m512i infinity = _mm512_set1_epi32(0x7f800000);
	const __m512i firstClamped = _mm512_set1_epi32(0x7f7f8000); // halfway between the largest finite bfloat16 and 2^128
	const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
	const __m512i upper = _mm512_srli_epi32(bits, 16);
	const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
	const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
	__m512i nearest = _mm512_srli_epi32(sum, 16);
	const __mmask16 isClamped =
	    _mm512_cmpge_epi32_mask(magnitude, firstClamped) & _mm512_cmplt_epi32_mask(magnitude, infinity);
	nearest = _mm512_mask_sub_epi32(nearest, isClamped, nearest, _mm512_set1_epi32(1));
	const __mmask16 isNan = _mm512_cmpgt_epi32_mask(magnitude, infinity);
	nearest = _mm512_mask_or_epi32(nearest, isNan, upper, _mm512_set1_epi32(0x40)); // quiet
	return _mm512_cvtepi32_epi16(nearest);
}

AUTOAMP_AVX512 inline __m512i convertVectors(__m512 low, __m512 high)
{
	const __m512i packed = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
	// The instruction is right, except for Inf that was finite and for zero that was not.
	const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), lowBits = _mm512_castps_si512(low),
	              highBits = _mm512_castps_si512(high), shifted = _mm512_add_epi16(packed, packed); // without the sign
	const __mmask32 wasNonzero =
	    _mm512_kunpackw(_mm512_test_epi32_mask(highBits, magnitude), _mm512_test_epi32_mask(lowBits, magnitude));
	const __mmask32 isWrong = _mm512_cmpeq_epi16_mask(shifted, _mm512_set1_epi16(static_cast<int16_t>(0xff00))) |
	                          _mm512_mask_testn_epi16_mask(wasNonzero, shifted, shifted);
	if (__builtin_expect(isWrong == 0, 1))
		return packed;
	return _mm512_inserti64x4(_mm512_castsi256_si512(convertExactly(lowBits)), convertExactly(highBits), 1);
}

AUTOAMP_AVX512 void convertRun(const float *source, int64_t count, uint16_t *target)
{
	for (; count >= 32; count -= 32, source += 32, target += 32)
		_mm512_storeu_si512(target, convertVectors(_mm512_loadu_ps(source), _mm512_loadu_ps(source + 16)));
	if (count == 0)
		return;
	const __mmask32 mask = (uint32_t{1} << count) - 1; // masked elements are neither read nor written
	const __m512 low = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), source);
	const __m512 high = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), source + 16);
	_mm512_mask_storeu_epi16(target, mask, convertVectors(low, high));
}

} // namespace

void convert(const Matrix &matrix, int64_t begin, int64_t end, uint16_t *target)
{
	if (matrix.ld == matrix.length)
		return convertRun(matrix.source + begin, end - begin, target + begin);
	while (begin < end) {
		const int64_t line = begin / matrix.length, at = begin % matrix.length;
		const int64_t count = std::min(matrix.length - at, end - begin);
		convertRun(matrix.source + line * matrix.ld + at, count, target + begin);
		begin += count;
	}
}

AUTOAMP_AVX512 void roundToBfloat16(float *values, int64_t count)
{
	for (int64_t i = 0; i < count; ++i) {
		uint32_t bits;
		std::memcpy(&bits, values + i, sizeof bits);
		const bool isNan = (bits & 0x7fffffff) > 0x7f800000;
		bits = (isNan ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
		std::memcpy(values + i, &bits, sizeof bits);
	}
}

AUTOAMP_AVX512 void addScaled(float *target, float scale, const float *source, int64_t count)
{
	for (int64_t i = 0; i < count; i += 16) {
		const auto mask = static_cast<__mmask16>(count - i >= 16 ? 0xffff : (1 << (count - i)) - 1);
		const __m512 sum = _mm512_fmadd_ps(_mm512_set1_ps(scale), _mm512_maskz_loadu_ps(mask, target + i),
		                                   _mm512_maskz_loadu_ps(mask, source + i));
		_mm512_mask_storeu_ps(target + i, mask, sum);
	}
}

} // namespace autoamp::cpu
