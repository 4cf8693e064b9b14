// Memory of the strict check of a float16 product (docs/adr/0047): offsets and sizes, which the host computes from the
// shape alone. Plain data, part of `Parameters` in cast.h.
#pragma once

#include "kernels/scaling.h"

#include <cstdint>

namespace autoamp::kernels {

// Lines are rows of op(A) and columns of op(B). The matrices of a batch are checked one by one, each one a group. If
// they share an operand, they are one group: a product with the lines of all matrices.
struct Strict {
	uint8_t *memory = nullptr;     // 16-byte aligned; null: the call is not checked
	uint32_t *isUncured = nullptr; // set to 1 if the product was mended in vain; null: nothing is set
	int64_t groups = 0, k = 0;
	int64_t counters = 0, shifts = 0, bytes = 0; // offsets in bytes, and the size of the memory
	struct Side {
		int64_t lines, linesOfMatrix;        // in a group, and in each matrix of it
		int64_t parts, linesOfPart;          // the sums over lines
		int64_t chunks, depthOfChunk;        // the sums over k
		int64_t bands;                       // of 64 lines
		int64_t alongK, sums, bases, totals; // offsets in bytes
	} side[2] = {};

	AUTOAMP_HOST_DEVICE int64_t counterCount() const
	{
		return groups * (1 + side[0].bands + side[1].bands);
	} // after StrictTotals
};

constexpr int64_t strictTotalsBytes = 36, alongKBytes = 32, bandBytes = 40; // sizes of types in strict.cuh

// Decision of settle, and the values that the product needs if it is mended. Written by the strict check of a call.
struct Mending {
	uint32_t isNeeded;
	int32_t exponent[2];
	float alpha;
	uint32_t worse; // operand from which most of the loss comes
	float excess;
	uint32_t lost[2]; // rows and columns
};

} // namespace autoamp::kernels
