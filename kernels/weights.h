// Interface of the kernels that keep converted operands (weights.cuh; docs/adr/0061). Plain data. Included by cast.h.
#pragma once

#include "kernels/scaling.h"

#include <cstdint>

namespace autoamp::kernels {

// Treatment of an operand by a call. observed: converts it, and computes a fingerprint of it. checked, frozen: uses the
// kept copy, if it has a content; else it converts the operand into the copy.
enum class Keeping : uint32_t { none, observed, checked, frozen };

// State of a kept copy, in front of it, or of an observed operand. One stream or graph uses a copy at a time. Streams
// that observe the same operand at the same time may lose an observation.
struct WeightState {
	uint64_t generation;         // number of the content; if it differs from Kept::generation, there is none
	uint64_t fingerprint;        // from the latest observed conversion
	int32_t exponent;            // scale of the copy in float16: 2^exponent
	uint32_t maximum;            // as in CastRecord
	uint32_t calls;              // with this copy: selects the lines of the sample; or observations
	uint32_t changes;            // found in these calls; or, of an observed operand, as in WeightFacts::inARow
	uint32_t isStale;            // frozen: a sample differed, so the next call converts the operand again
	uint32_t differs, blocks;    // in a launch without settle: 1 if a block found a difference; blocks that have ended
	uint32_t compared, repeated; // observed operands, over all generations
};

// Findings about an operand for the host, in mapped memory. The upper half of a word is the lower half of the
// generation to which the lower half belongs. The lower half of inARow has two parts of 16 bits: the number of
// observations that have ended, and the number of equal fingerprints in a row.
struct WeightFacts {
	uint64_t inARow;
	uint64_t changes; // of the copy
	uint32_t compared, repeated;
};
AUTOAMP_HOST_DEVICE inline uint64_t tagged(uint64_t generation, uint32_t value)
{
	return generation << 32 | value;
}
constexpr uint32_t weightCount = 4096; // observed operands of a context

// A kept or observed operand of one call.
struct Kept {
	WeightState *state;
	WeightFacts *facts;
	uint64_t generation;
	Keeping how;
	uint32_t share; // one line in this many is compared: sampleShare, or 1 for an audit
};
AUTOAMP_HOST_DEVICE inline bool isCopy(const Kept &kept)
{
	return kept.how == Keeping::checked || kept.how == Keeping::frozen;
}

// Findings of one block of the cast, by operand.
struct KeptRecord {
	uint64_t fingerprint[2];
	uint32_t differs[2];
};

// The largest magnitudes of operands that settle converts again, from all of its blocks. The cast clears it.
struct Recast {
	uint32_t amax[2], nonfinite[2];
	uint32_t blocks; // that have ended
};

// The sample: whole lines of a column. Any 64 calls in a row compare each line once. The odd factor spreads the lines
// of a call over the columns, the reversed bits spread those of a column over the calls (simulated in the reference).
constexpr uint32_t sampleShare = 64;
constexpr int lineElements = 32;
AUTOAMP_HOST_DEVICE inline uint32_t reversedBits(uint32_t x)
{
	return (x & 1) << 5 | (x & 2) << 3 | (x & 4) << 1 | (x & 8) >> 1 | (x & 16) >> 3 | (x & 32) >> 5;
}
AUTOAMP_HOST_DEVICE inline int64_t firstLine(int64_t column, uint32_t call, uint32_t share)
{
	return (column * 39 + reversedBits(call % sampleShare)) & (share - 1);
}

} // namespace autoamp::kernels
