// Multiplies a weight with rows: result = alpha rows' weight + beta result, from bfloat16 with fp32 sums. The sum of
// each element adds the pairs of 1024 terms in their order, and then these sums, so the bits depend neither on the
// number of threads and rows, nor on whether the weight was packed before. Exchanging the operands does not change them
// either. Any thread; needs bf16Unit() != none. No allocation.
#pragma once

#include "src/cpu/packed.h"

#include <cstdint>

namespace autoamp::cpu {

// Elements of the result: outer index of the weight w, row r.
struct Result {
	float *C;
	int64_t ldc;
	bool isTransposed; // element (w, r) is C[w * ldc + r] instead of C[r * ldc + w]
	float alpha, beta; // if beta is 0, C is not read
};

// Rows as packRows packs them, and a weight as packPanels packs all of it, or null: packed here, in parts.
struct PackedProduct {
	const uint16_t *rows;
	int64_t count;
	const Operand &weight;
	const uint16_t *packed;
	bool usesFma; // multiplies by FMA instructions: the bits are the same, except for sums that were denormal
};

// Bytes of memory that each thread needs for so many rows.
int64_t bytesForThread(int64_t count, const Operand &weight, bool isPacked, bool usesFma);

// Computes the outer indices [begin, end) of the weight. `begin` is a multiple of panelWidth, and so is `end`, except
// for the last one.
void multiply(const PackedProduct &product, const Result &result, int64_t begin, int64_t end, void *memory);

} // namespace autoamp::cpu
