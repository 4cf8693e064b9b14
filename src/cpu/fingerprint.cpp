#include "src/cpu/fingerprint.h"

#include "src/base/hash.h"
#include "src/cpu/vectors.h"

#include <algorithm>
#include <cstring>

namespace autoamp::cpu {

namespace {

// Each word of 64 bits enters two sums of different products of its halves, so that a changed element changes both. The
// keys differ by lane and change with each step: the order of elements counts.
struct Sums {
	__m512i first[4], second[4], keys[4];
};

AUTOAMP_AVX512 inline void add(Sums &sums, int lane, __m512i words)
{
	const __m512i step = _mm512_set1_epi64(static_cast<int64_t>(0x9e3779b97f4a7c15));
	const __m512i mixed = _mm512_xor_si512(words, sums.keys[lane]);
	const __m512i swapped = _mm512_shuffle_epi32(mixed, static_cast<_MM_PERM_ENUM>(0xb1));
	sums.first[lane] = _mm512_add_epi64(sums.first[lane], _mm512_mul_epu32(mixed, swapped));
	sums.second[lane] =
	    _mm512_add_epi64(_mm512_rol_epi64(sums.second[lane], 29), _mm512_xor_si512(mixed, sums.first[lane]));
	sums.keys[lane] = _mm512_add_epi64(sums.keys[lane], step);
}

AUTOAMP_AVX512 void addLine(Sums &sums, const float *line, int64_t count)
{
	for (; count >= 64; count -= 64, line += 64)
		for (int lane = 0; lane < 4; ++lane)
			add(sums, lane, _mm512_loadu_si512(line + lane * 16));
	for (int lane = 0; count > 0; count -= 16, line += 16, ++lane)
		add(sums, lane, _mm512_maskz_loadu_epi32(firstOf16(count), line));
}

} // namespace

AUTOAMP_AVX512 uint64_t fingerprint(const Matrix &matrix)
{
	Sums sums;
	for (int lane = 0; lane < 4; ++lane) {
		alignas(64) uint64_t keys[8];
		for (int i = 0; i < 8; ++i)
			keys[i] = base::mix(0x243f6a8885a308d3, static_cast<uint64_t>(lane * 8 + i));
		sums.keys[lane] = _mm512_load_si512(keys);
		sums.first[lane] = sums.second[lane] = _mm512_setzero_si512();
	}
	if (matrix.ld == matrix.length)
		addLine(sums, matrix.source, matrix.elements());
	else
		for (int64_t line = 0; line < matrix.lines; ++line)
			addLine(sums, matrix.source + line * matrix.ld, matrix.length);
	uint64_t hash = 0;
	for (const __m512i *each : {sums.first, sums.second}) {
		alignas(64) uint64_t words[32];
		std::memcpy(words, each, sizeof words);
		for (uint64_t word : words)
			hash = base::mix(hash, word);
	}
	return hash;
}

uint64_t sample(const Matrix &matrix)
{
	constexpr int64_t count = 32;
	uint64_t hash = 0;
	for (int64_t i = 0; i < count; ++i) {
		const int64_t at = (matrix.elements() - 1) * i / (count - 1);
		uint32_t word;
		std::memcpy(&word, matrix.source + at / matrix.length * matrix.ld + at % matrix.length, 4);
		hash = base::mix(hash, word);
	}
	return hash;
}

} // namespace autoamp::cpu
