// Numbers of blocks for the conversion kernels. Any thread.
#pragma once

#include "kernels/cast.h"

#include <algorithm>

namespace autoamp::kernels {

// Oldest architecture whose settle kernels wait by themselves for the cast (waitForCast() in cast.cuh).
constexpr int firstWaiting = 90;

// For the casts. Two vectors of 8 elements per thread keep enough bytes in flight. The grid has at most eight blocks
// per multiprocessor; its threads then take more vectors. Other sizes are slower, not wrong.
inline unsigned castBlocks(int64_t wanted, unsigned smCount)
{
	return static_cast<unsigned>(
	    std::clamp<int64_t>(wanted, 1, std::min(8 * std::max(smCount, 1u), unsigned{mostCastBlocks})));
}

inline unsigned gridSize(const Parameters &parameters, unsigned smCount)
{
	int64_t vectors = 0;
	for (const Operand &operand : parameters.operand)
		vectors = std::max(vectors, (operand.rows + 7) / 8 * operand.columns * operand.batch);
	const int64_t wanted = (vectors + 2 * blockSize - 1) / (2 * blockSize);
	return castBlocks(wanted, smCount);
}

// Most blocks of the cast on any device: the host needs memory for so many records.
template <class Call>
unsigned recordCount(const Call &parameters)
{
	return gridSize(parameters, mostCastBlocks / 8);
}

// For settle. Usually its blocks return at once; one per multiprocessor is enough for the rare recast and loss check.
inline unsigned settleBlocks(unsigned castBlocks, unsigned smCount)
{
	return std::min(castBlocks, std::max(smCount, 1u));
}

// For tensors, in tiles of 8 elements per thread.
inline unsigned gridOfTiles(int64_t tiles, unsigned smCount)
{
	return static_cast<unsigned>(std::clamp<int64_t>(tiles, 1, 8 * std::max(smCount, 1u)));
}

inline unsigned gridSize(const TensorParameters &parameters, unsigned smCount)
{
	int64_t tiles = 0;
	for (const Tensor &tensor : parameters.tensor)
		tiles = std::max(tiles, tileCount(tensor.layout.rows, tensor.layout.columns() + tensor.zeroColumns));
	return castBlocks(tiles, smCount);
}

inline unsigned gridSize(const Placement &placement, unsigned smCount)
{
	return gridOfTiles(tileCount(placement.layout.rows, placement.layout.columns()), smCount);
}

inline unsigned gridSize(const Runs &runs, unsigned smCount)
{
	int64_t most = 0;
	for (int i = 0; i < runs.count; ++i)
		most = std::max(most, runs.run[i].count);
	return static_cast<unsigned>(
	    std::clamp<int64_t>((most + 4 * blockSize - 1) / (4 * blockSize), 1, 8 * std::max(smCount, 1u)));
}

// For the scatter: two elements per thread, with the same limit.
inline unsigned gridSize(const Scatter &scatter, unsigned smCount)
{
	const int64_t wanted = (scatter.rows * scatter.columns * scatter.batch + 2 * blockSize - 1) / (2 * blockSize);
	return static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, 8 * std::max(smCount, 1u)));
}

// For the sum: one block for each 8 or 32 outputs.
inline unsigned gridSize(const Sum &sum, unsigned smCount)
{
	const int64_t abreast = sum.isAlongRows ? 8 : 32;
	const int64_t wanted = (sum.outputs + abreast - 1) / abreast * sum.batch;
	return static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, 8 * std::max(smCount, 1u)));
}

} // namespace autoamp::kernels
