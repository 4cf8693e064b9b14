#include "src/cpu/packed.h"

#include "src/cpu/vectors.h"

#include <algorithm>

namespace autoamp::cpu {

namespace {

// 16 pairs of the line `source`, which has `count` elements left.
AUTOAMP_AVX512 inline __m512i pairsOfLine(const float *source, int64_t count)
{
	return convertVectors(_mm512_maskz_loadu_ps(firstOf16(count), source),
	                      _mm512_maskz_loadu_ps(firstOf16(count - 16), source + 16));
}

// Pairs of the elements of two lines. The second may be absent.
AUTOAMP_AVX512 inline __m512i pairsOfLines(const float *first, const float *second, __mmask16 mask, bool hasSecond)
{
	alignas(64) static constexpr uint16_t interleaved[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
	                                                         21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
	                                                         11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
	const __m512i both = convertVectors(_mm512_maskz_loadu_ps(mask, first),
	                                    _mm512_maskz_loadu_ps(hasSecond ? mask : __mmask16{0}, second));
	return _mm512_permutexvar_epi16(_mm512_load_si512(interleaved), both);
}

// 16 outer indices from `outer` and 16 pairs from `pair`; absent ones are zero. One vector per outer index, or, if the
// lines have one inner index, per pair. Each line is in another page, where the processor does not foresee the next
// access, so what follows on the line is fetched.
AUTOAMP_AVX512 inline void loadTile(const Operand &operand, int64_t outer, int64_t pair, __m512i (&tile)[16])
{
	constexpr int64_t ahead = 64; // elements
	const auto &[source, length, lines, ld] = operand.matrix;
	if (operand.isInnerContiguous) {
#pragma GCC unroll 16
		for (int64_t i = 0; i < 16; ++i) {
			const float *const first = source + (outer + i) * ld + pair * 2;
			_mm_prefetch(first + ahead, _MM_HINT_T0);
			_mm_prefetch(first + ahead + 16, _MM_HINT_T0);
			tile[i] = outer + i < lines ? pairsOfLine(first, length - pair * 2) : _mm512_setzero_si512();
		}
		return;
	}
	const __mmask16 mask = firstOf16(length - outer);
#pragma GCC unroll 16
	for (int64_t i = 0; i < 16; ++i) {
		const int64_t line = (pair + i) * 2;
		const float *const first = source + line * ld + outer;
		_mm_prefetch(first + ahead, _MM_HINT_T0);
		_mm_prefetch(first + ld + ahead, _MM_HINT_T0);
		tile[i] = line < lines ? pairsOfLines(first, first + ld, mask, line + 1 < lines) : _mm512_setzero_si512();
	}
}

} // namespace

Operand Operand::part(int64_t outerBegin, int64_t outerEnd, int64_t innerBegin, int64_t innerEnd) const
{
	const int64_t outers = outerEnd - outerBegin, inners = innerEnd - innerBegin;
	if (isInnerContiguous)
		return {{matrix.source + outerBegin * matrix.ld + innerBegin, inners, outers, matrix.ld}, true};
	return {{matrix.source + innerBegin * matrix.ld + outerBegin, outers, inners, matrix.ld}, false};
}

AUTOAMP_AVX512 void packPanels(const Operand &operand, uint16_t *target, int64_t stride)
{
	const int64_t outer = operand.outer(), pairs = operand.pairs();
	if (!operand.isInnerContiguous) {
		const auto &[source, length, lines, ld] = operand.matrix;
		for (int64_t pair = 0; pair < pairs; ++pair) {
			const float *const first = source + pair * 2 * ld;
			const bool hasSecond = pair * 2 + 1 < lines;
			for (int64_t panel = 0; panel < panelsOf(outer); ++panel)
#pragma GCC unroll 4
				for (int64_t i = 0; i < panelWidth; i += 16) {
					const int64_t at = panel * panelWidth + i;
					_mm_prefetch(first + 8 * ld + at, _MM_HINT_T0); // each line is in another page
					_mm_prefetch(first + 9 * ld + at, _MM_HINT_T0);
					_mm512_storeu_si512(target + panel * stride + pair * pairElements + i * 2,
					                    pairsOfLines(first + at, first + ld + at, firstOf16(length - at), hasSecond));
				}
		}
		return;
	}
	for (int64_t panel = 0; panel < panelsOf(outer); ++panel)
		for (int64_t i = 0; i < panelWidth; i += 16)
			for (int64_t pair = 0; pair < pairs; pair += 16) {
				__m512i tile[16];
				loadTile(operand, panel * panelWidth + i, pair, tile);
				transpose(tile);
				uint16_t *const to = target + panel * stride + pair * pairElements + i * 2;
				for (int64_t j = 0, count = std::min<int64_t>(16, pairs - pair); j < count; ++j)
					_mm512_storeu_si512(to + j * pairElements, tile[j]);
			}
}

AUTOAMP_AVX512 void packRows(const Operand &operand, uint16_t *target)
{
	const int64_t outer = operand.outer(), pairs = operand.pairs(), stride = rowStride(operand.inner());
	if (operand.isInnerContiguous) {
		constexpr int64_t ahead = 1024; // elements
		const auto &[source, length, lines, ld] = operand.matrix;
		for (int64_t i = 0; i < outer; ++i)
			for (int64_t pair = 0; pair < pairs; pair += 16) {
				const float *const first = source + i * ld + pair * 2;
				_mm_prefetch(first + ahead, _MM_HINT_T0);
				_mm_prefetch(first + ahead + 16, _MM_HINT_T0);
				_mm512_storeu_si512(target + i * stride + pair * 2, pairsOfLine(first, length - pair * 2));
			}
		return;
	}
	for (int64_t pair = 0; pair < pairs; pair += 16)
		for (int64_t i = 0; i < outer; i += 16) {
			__m512i tile[16];
			loadTile(operand, i, pair, tile);
			transpose(tile);
			for (int64_t j = 0, count = std::min<int64_t>(16, outer - i); j < count; ++j)
				_mm512_storeu_si512(target + (i + j) * stride + pair * 2, tile[j]);
		}
}

} // namespace autoamp::cpu
