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

// Vectors of 8 elements for which a kept operand counts: its sample has few lines, and each thread takes two elements.
inline int64_t vectorsOf(const Kept &kept, int64_t rows, int64_t columns)
{
	const int64_t lines = (rows + lineElements - 1) / lineElements * columns;
	const int64_t all = (rows + 7) / 8 * columns;
	return isCopy(kept) ? std::min(all, lines / kept.share * lineElements) : all;
}

inline unsigned gridSize(const Parameters &parameters, unsigned smCount)
{
	int64_t vectors = 0;
	for (int i = 0; i < operands; ++i) {
		const Operand &operand = parameters.operand[i];
		vectors = std::max(vectors, vectorsOf(parameters.kept[i], operand.rows, operand.columns * operand.batch));
	}
	const int64_t wanted = (vectors + 2 * blockSize - 1) / (2 * blockSize);
	return castBlocks(wanted, smCount);
}

// Most blocks of the cast on any device: the host needs memory for so many records.
template <class Call>
unsigned recordCount(const Call &parameters)
{
	return gridSize(parameters, mostCastBlocks / 8);
}

// For settle. Usually its blocks return at once; one per multiprocessor is enough for the rare recast and loss check. A
// strict check reads both operands.
inline unsigned settleBlocks(unsigned castBlocks, unsigned smCount, bool isStrict = false)
{
	return std::min(castBlocks, std::max(smCount, 1u) * (isStrict ? 2 : 1));
}

inline bool isStrict(const Parameters &parameters)
{
	return parameters.strict.memory;
}
inline bool isStrict(const TensorParameters &)
{
	return false;
}

// Layout of the memory of a strict check. The parts of a sum depend on the shape alone, as in partsOf().
inline Strict strictLayout(const Parameters &p)
{
	Strict strict;
	const int64_t batch = std::max(p.operand[0].batch, p.operand[1].batch);
	const bool isShared = p.operand[0].batch != p.operand[1].batch;
	strict.groups = isShared ? 1 : batch;
	strict.k = p.isAlongRows[0] ? p.operand[0].rows : p.operand[0].columns;
	const auto add = [&strict](int64_t bytes) {
		const int64_t at = strict.bytes;
		strict.bytes += (bytes + 15) / 16 * 16;
		return at;
	};
	for (int i = 0; i < operands; ++i) {
		const Operand &operand = p.operand[i];
		Strict::Side &side = strict.side[i];
		side.linesOfMatrix = p.isAlongRows[i] ? operand.columns : operand.rows;
		side.lines = side.linesOfMatrix * (isShared ? operand.batch : 1);
		side.bands = (side.lines + tileWide - 1) / tileWide;
		const auto split = [&strict](int64_t kept, int64_t depth, int64_t &perPart) {
			perPart = tileDeep * tilesOfPart((depth + tileDeep - 1) / tileDeep, partsWanted(kept, strict.groups));
			return (depth + perPart - 1) / perPart;
		};
		side.parts = split(strict.k, side.lines, side.linesOfPart);
		side.chunks = split(side.lines, strict.k, side.depthOfChunk);
		side.alongK = add(alongKBytes * strict.groups * side.parts * strict.k);
		side.sums = add(int64_t{sizeof(ProbeSums)} * strict.groups * side.chunks * side.lines);
		side.bases = add(int64_t{sizeof(int32_t)} * strict.groups * side.bands * side.chunks);
		side.totals = add(bandBytes * strict.groups * side.bands);
	}
	strict.counters = add(strictTotalsBytes + strict.counterCount() * int64_t{sizeof(uint32_t)});
	strict.shifts = add(int64_t{sizeof(int32_t)} * strict.groups * strict.k);
	return strict;
}

// For tensors, in tiles of 8 elements per thread.
inline unsigned gridOfTiles(int64_t tiles, unsigned smCount)
{
	return static_cast<unsigned>(std::clamp<int64_t>(tiles, 1, 8 * std::max(smCount, 1u)));
}

inline unsigned gridSize(const TensorParameters &parameters, unsigned smCount)
{
	int64_t tiles = 0;
	for (int i = 0; i < operands; ++i) {
		const Tensor &tensor = parameters.tensor[i];
		const int64_t columns = tensor.layout.columns() + tensor.zeroColumns;
		const int64_t all = tileCount(tensor.layout.rows, columns);
		tiles = std::max(
		    tiles, isCopy(parameters.kept[i])
		               ? std::min(all, vectorsOf(parameters.kept[i], tensor.layout.rows, columns) / (2 * blockSize) + 1)
		               : all);
	}
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

// For a rounding in place: two elements per thread, with the same limit.
inline unsigned gridSize(const Rounded &rounded, unsigned smCount)
{
	const int64_t wanted = (rounded.layout.rows * rounded.layout.columns() + 2 * blockSize - 1) / (2 * blockSize);
	return static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, 8 * std::max(smCount, 1u)));
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
