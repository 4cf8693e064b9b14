// Vectors of AVX-512 that several files of the engine share. The functions need bf16Unit() != none.
#pragma once

#include <cstdint>
#include <immintrin.h>

#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // g++ 12 reports its own intrinsics

// The rest of the library runs on any x86-64.
#define AUTOAMP_AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512bf16,prfchw")))

namespace autoamp::cpu {

// bfloat16 of 32 values, in this order. The instruction makes large finite values Inf; they become the largest finite
// value instead.
AUTOAMP_AVX512 inline __m512i convertVectors(__m512 low, __m512 high)
{
	const __m512i packed = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
	const __m512i withoutSign = _mm512_add_epi16(packed, packed);
	const __mmask32 isInf = _mm512_cmpeq_epi16_mask(withoutSign, _mm512_set1_epi16(static_cast<int16_t>(0xff00)));
	if (__builtin_expect(isInf == 0, 1))
		return packed;
	const __m512i magnitude = _mm512_set1_epi32(0x7fffffff), infinity = _mm512_set1_epi32(0x7f800000);
	const auto isFinite = [&](__m512 vector) AUTOAMP_AVX512 {
		return _mm512_cmplt_epi32_mask(_mm512_and_si512(_mm512_castps_si512(vector), magnitude), infinity);
	};
	const __mmask32 wasFinite = _mm512_kunpackw(isFinite(high), isFinite(low));
	return _mm512_mask_sub_epi16(packed, isInf & wasFinite, packed, _mm512_set1_epi16(1));
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
