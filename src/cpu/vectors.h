// Vectors of AVX-512 that several files of the engine share. The functions need bf16Unit() != none.
#pragma once

#include <cstdint>
#include <immintrin.h>

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // g++ 12 reports its own intrinsics

// The rest of the library runs on any x86-64.
#define AUTOAMP_AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16")))

namespace autoamp::cpu {

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

// bfloat16 of 32 values, in this order.
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

// Transposes 16 vectors with 16 words each.
AUTOAMP_AVX512 inline void transpose(__m512i (&rows)[16])
{
	__m512i pairs[16], quads[16];
#pragma GCC unroll 16
	for (int i = 0; i < 16; i += 2) {
		pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
		pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
	}
#pragma GCC unroll 16
	for (int i = 0; i < 16; i += 4)
#pragma GCC unroll 16
		for (int j = 0; j < 2; ++j) {
			quads[i + 2 * j] = _mm512_unpacklo_epi64(pairs[i + j], pairs[i + j + 2]);
			quads[i + 2 * j + 1] = _mm512_unpackhi_epi64(pairs[i + j], pairs[i + j + 2]);
		}
#pragma GCC unroll 16
	for (int j = 0; j < 4; ++j) { // quads[4 i + j]: columns j, 4 + j, 8 + j, 12 + j of rows 4 i to 4 i + 3
		const __m512i a = _mm512_shuffle_i32x4(quads[j], quads[4 + j], 0x88);
		const __m512i b = _mm512_shuffle_i32x4(quads[8 + j], quads[12 + j], 0x88);
		const __m512i c = _mm512_shuffle_i32x4(quads[j], quads[4 + j], 0xdd);
		const __m512i d = _mm512_shuffle_i32x4(quads[8 + j], quads[12 + j], 0xdd);
		rows[j] = _mm512_shuffle_i32x4(a, b, 0x88);
		rows[4 + j] = _mm512_shuffle_i32x4(c, d, 0x88);
		rows[8 + j] = _mm512_shuffle_i32x4(a, b, 0xdd);
		rows[12 + j] = _mm512_shuffle_i32x4(c, d, 0xdd);
	}
}

// The first `count` of 16 elements; all if there are more, none if there are fewer than 1.
inline uint16_t firstOf16(int64_t count)
{
	return count >= 16 ? 0xffff : count <= 0 ? 0 : static_cast<uint16_t>((1 << count) - 1);
}

} // namespace autoamp::cpu
