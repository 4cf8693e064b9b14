#include "src/cpu/convert.h"

#include "src/cpu/vectors.h"

#include <algorithm>
#include <cstring>

namespace autoamp::cpu {

namespace {

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
