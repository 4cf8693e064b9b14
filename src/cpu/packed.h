// Operands of packed_product.h, converted to bfloat16 and packed. `outer` is the index that remains in the result,
// `inner` the index of the sums. Two neighbours of the inner index form a pair, because one instruction multiplies two.
// Any thread; needs bf16Unit() != none.
#pragma once

#include "src/cpu/convert.h"

#include <cstdint>

namespace autoamp::cpu {

struct Operand {
	Matrix matrix;
	bool isInnerContiguous; // a line has one outer index; otherwise, it has one inner index

	int64_t outer() const { return isInnerContiguous ? matrix.lines : matrix.length; }
	int64_t inner() const { return isInnerContiguous ? matrix.length : matrix.lines; }
	int64_t pairs() const { return (inner() + 1) / 2; }
	Operand part(int64_t outerBegin, int64_t outerEnd, int64_t innerBegin, int64_t innerEnd) const;
};

// A weight in panels: panelWidth outer indices, their first pairs, then their second pairs, and so on. Indices after
// the last one are zero.
constexpr int64_t panelWidth = 64;
constexpr int64_t pairElements = panelWidth * 2;
inline int64_t panelsOf(int64_t outer)
{
	return (outer + panelWidth - 1) / panelWidth;
}

// A panel begins `stride` elements after the previous one. Equal places of panels are not a multiple of 4 KiB apart,
// because these would share the same lines of the cache.
inline int64_t panelStride(int64_t pairs)
{
	return pairs * pairElements + 32;
}
void packPanels(const Operand &operand, uint16_t *target, int64_t stride);

// The rows, which the weight is multiplied with: each outer index as a row of pairs.
inline int64_t rowStride(int64_t inner)
{
	return (inner + 31) / 32 * 32 + 32;
}
void packRows(const Operand &operand, uint16_t *target);

} // namespace autoamp::cpu
