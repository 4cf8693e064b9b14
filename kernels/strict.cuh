// The strict check (AUTOAMP_SCALING=strict, docs/adr/0047) measures the loss of every float16 product with random
// weights. A product that loses too much is mended before it runs, and measured again: powers of two balance the
// columns of op(A) and the rows of op(B). Device code and host C++, included by cast.cuh. Every sum has a fixed order
// that depends on the shape alone, and no step depends on a prediction, so that the decision is a function of the data.
#pragma once

namespace autoamp::kernels {

// Sums over lines for one k, divided by 2^strictExponent(word). word: bits of the largest finite |x|; the sign bit is
// set if there is an Inf or NaN.
struct alignas(16) AlongK {
	float value[probes];
	uint32_t word, unused[3];
};

// Totals of the call. Only integers, so that the order of blocks does not matter.
struct StrictTotals {
	uint32_t done;           // blocks of settle
	uint32_t isLossy, worst; // worst: bits of the largest excess
	uint32_t lost[operands], filled[operands], votes[operands];
};
static_assert(sizeof(StrictTotals) == strictTotalsBytes && sizeof(AlongK) == alongKBytes);
struct BandTotals {
	double value[2], loss[2]; // by kind of weights: signs, integers
	uint32_t filled, lost;
};
static_assert(sizeof(BandTotals) == bandBytes);

constexpr int noBase = -100000;        // there is no k at which both operands have elements
constexpr int32_t signsOnly = -100000; // instead of a shift: no finite product at this k is other than 0

__device__ inline bool isStrict(const Parameters &p)
{
	return p.strict.memory != nullptr;
}
__device__ inline bool isStrict(const TensorParameters &)
{
	return false;
}

template <class T>
__device__ inline T *strictAt(const Parameters &p, int64_t offset)
{
	return reinterpret_cast<T *>(p.strict.memory + offset);
}

__device__ inline AlongK *alongKOf(const Parameters &p, int operand, int64_t group, int64_t part)
{
	const Strict::Side &side = p.strict.side[operand];
	return strictAt<AlongK>(p, side.alongK) + (group * side.parts + part) * p.strict.k;
}

// Exponent of the largest element, limited so that 2^-exponent is a normal float.
__device__ inline int strictExponent(uint32_t word)
{
	const uint32_t magnitude = word & magnitudeMask;
	return magnitude == 0 ? -100 : max(-100, min(exponentOf(magnitude), 126));
}

// 2^exponent for an exponent that is not positive; 0 if it is too small.
__device__ inline float atMostOne(int exponent)
{
	return exponent < minExponent ? 0.0f : powerOfTwo(exponent);
}

__device__ inline void merge(AlongK &into, const AlongK &from)
{
	const int mine = strictExponent(into.word), theirs = strictExponent(from.word), both = max(mine, theirs);
	AUTOAMP_UNROLL
	for (int i = 0; i < probes; ++i)
		into.value[i] = into.value[i] * atMostOne(mine - both) + from.value[i] * atMostOne(theirs - both);
	into.word = max(into.word & magnitudeMask, from.word & magnitudeMask) | ((into.word | from.word) & nonfiniteFlag);
}

// Weight of a line for one probe. The first two probes have signs. Their sums of integers are exact, so that large
// products that cancel do so in the sums, too. But two lines have the same signs with a probability of 1/4, and the
// sums over two such lines of opposite values are 0. The others have random integers from -4 to 4 without 0.
__device__ inline float weightOf(int64_t line, int probe, bool isRowOfA)
{
	const auto bits = static_cast<int32_t>(signsOf(line, isRowOfA) >> 16 * probe & 7);
	const float size = static_cast<float>(probe < probes / 2 ? 1 : bits % 4 + 1);
	return bits < 4 ? size : -size;
}

// Addresses the elements of an operand by line and k.
class Lines
{
public:
	__device__ Lines(const Parameters &p, int operand, int64_t group)
	    : operand_(p.operand[operand]), side_(p.strict.side[operand]), group_(group),
	      isAlongRows_(p.isAlongRows[operand])
	{
	}
	struct Place {
		const float *source;
		uint16_t *target;
	};
	__device__ Place at(int64_t line, int64_t k) const
	{
		int64_t matrix = group_;
		if (side_.lines != side_.linesOfMatrix) {
			matrix = quotientOf(line, side_.linesOfMatrix);
			line -= matrix * side_.linesOfMatrix;
		}
		const int64_t row = isAlongRows_ ? k : line, column = isAlongRows_ ? line : k;
		const float *const source = operand_.isArray ? reinterpret_cast<const float *const *>(operand_.source)[matrix]
		                                             : operand_.source + matrix * operand_.sourceStride;
		return {source + column * operand_.sourceLd + row,
		        operand_.target + matrix * operand_.targetStride + column * operand_.targetLd + row};
	}

private:
	const Operand &operand_;
	const Strict::Side &side_;
	const int64_t group_;
	const bool isAlongRows_;
};

// Index of a unit of work: a band of one group, and a part or chunk of the other direction.
struct Unit {
	int64_t group, band, part;
	__device__ Unit(int64_t unit, int64_t bands, int64_t parts)
	{
		const int64_t all = quotientOf(unit, parts);
		part = unit - all * parts;
		group = quotientOf(all, bands);
		band = all - group * bands;
	}
};

// Place in a tile of the i-th element that this thread loads: adjacent threads read adjacent elements.
struct InTile {
	int down, across;
	__device__ InTile(int i, bool isDeepFirst)
	{
		const int at = i * static_cast<int>(blockSize) + static_cast<int>(threadIdx.x);
		down = isDeepFirst ? at % tileDeep : at / tileWide;
		across = isDeepFirst ? at / tileDeep : at % tileWide;
	}
	__device__ int place() const { return down * (tileWide + 1) + across; }
};
constexpr int tileShare = tileWide * tileDeep / static_cast<int>(blockSize); // elements of a thread

// Clears the totals and counters, for one measure. Each thread takes every `step`-th word.
__device__ inline void clearCounters(const Parameters &p, int64_t first, int64_t step)
{
	const int64_t words = p.strict.counterCount() + sizeof(StrictTotals) / sizeof(uint32_t);
	for (int64_t i = first; i < words; i += step)
		strictAt<uint32_t>(p, p.strict.counters)[i] = 0;
}

// Replaces the cast of an operand: converts it, and adds up each k over the lines. Returns the maximum of this thread,
// as `CastRecord::maximum`. Clears the counters of settle.
static __device__ __attribute__((noinline)) uint32_t strictCast(const Parameters &p, int operand, int used)
{
	ProbeTile &tile = probeTile();
	const Strict &strict = p.strict;
	const Strict::Side &side = strict.side[operand];
	const uint32_t block = blockFor(operand);
	const int thread = static_cast<int>(threadIdx.x), wide = thread % tileWide, slice = thread / tileWide;
	if (operand == 0) {
		clearCounters(p, int64_t{block} * blockSize + thread, int64_t{gridDim.x} * blockSize);
		if (block == 0 && thread == 0)
			p.scratch->mending = {};
	}
	ToHalf convert{powerOfTwo(used)};
	uint32_t amax = 0, flag = 0;
	const int64_t bands = (strict.k + tileWide - 1) / tileWide;
	for (int64_t at = block; at < strict.groups * bands * side.parts; at += gridDim.x) {
		const Unit unit(at, bands, side.parts);
		const Lines lines(p, operand, unit.group);
		const int64_t firstK = unit.band * tileWide, end = min((unit.part + 1) * side.linesOfPart, side.lines);
		AlongK mine = {};
		for (int64_t deep = unit.part * side.linesOfPart; deep < end; deep += tileDeep) {
			AUTOAMP_LOOP
			for (int i = 0; i < tileShare; ++i) {
				const InTile in(i, !p.isAlongRows[operand]);
				float x = 0;
				if (deep + in.down < end && firstK + in.across < strict.k) {
					const Lines::Place place = lines.at(deep + in.down, firstK + in.across);
					x = __ldcs(place.source);
					*place.target = __half_as_ushort(__float2half_rn(x * convert.scale));
				}
				tile.x[in.place()] = x;
			}
			if (thread < tileDeep * probes)
				tile.strict[thread / probes].value[thread % probes] =
				    weightOf(deep + thread / probes, thread % probes, operand == 0);
			__syncthreads();
			const int first = slice * (tileDeep / slices); // rows past the end are zeros
			AlongK next = {};
			for (int i = first; i < first + tileDeep / slices; ++i) {
				const uint32_t magnitude = bitsOf(tile.x[i * (tileWide + 1) + wide]) & magnitudeMask;
				next.word = magnitude >= infinityBits
				                ? next.word | nonfiniteFlag
				                : max(next.word & magnitudeMask, magnitude) | (next.word & nonfiniteFlag);
			}
			const float down = powerOfTwo(-strictExponent(next.word));
			for (int i = first; i < first + tileDeep / slices; ++i) {
				const float x = tile.x[i * (tileWide + 1) + wide];
				const float value = (bitsOf(x) & magnitudeMask) < infinityBits ? x * down : 0.0f;
				AUTOAMP_UNROLL
				for (int probe = 0; probe < probes; ++probe)
					next.value[probe] = fmaf(value, tile.strict[i].value[probe], next.value[probe]);
			}
			merge(mine, next);
			__syncthreads();
		}
		amax = max(amax, mine.word & magnitudeMask), flag |= mine.word & nonfiniteFlag;
		AUTOAMP_UNROLL
		for (int i = 0; i < probes; ++i)
			tile.x[thread * (probes + 1) + i] = mine.value[i];
		reinterpret_cast<uint32_t *>(tile.x)[thread * (probes + 1) + probes] = mine.word;
		__syncthreads();
		if (thread < tileWide && firstK + thread < strict.k) {
			AlongK all = {};
			for (int from = 0; from < slices; ++from) {
				const float *const each = tile.x + (from * tileWide + thread) * (probes + 1);
				merge(all, {{each[0], each[1], each[2], each[3]}, bitsOf(each[probes]), {}});
			}
			alongKOf(p, operand, unit.group, unit.part)[firstK + thread] = all;
		}
		__syncthreads();
	}
	return amax | flag;
}

// Returns true to all threads of the block that is the last of `count` to arrive. It then sees what the others wrote.
static __device__ inline bool isLastOf(uint32_t &counter, uint32_t count)
{
	__shared__ bool isLast;
	__syncthreads();
	if (threadIdx.x == 0) {
		__threadfence_system(); // publishes the sums of this block, and drops values that were read before
		isLast = atomicAdd(&counter, 1u) == count - 1;
		__threadfence_system();
	}
	__syncthreads();
	const bool result = isLast;
	__syncthreads();
	return result;
}

__device__ inline double doublePowerOfTwo(int exponent) // in [-1022, 1023]
{
	const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
	double power;
	memcpy(&power, &bits, sizeof power);
	return power;
}

__device__ inline void add(BandTotals &into, const BandTotals &from)
{
	AUTOAMP_UNROLL
	for (int i = 0; i < 2; ++i)
		into.value[i] += from.value[i], into.loss[i] += from.loss[i];
	into.filled += from.filled, into.lost += from.lost;
}

// Sum over the block in a fixed order; valid in thread 0.
static __device__ inline BandTotals blockTotals(BandTotals mine)
{
	__shared__ BandTotals parts[blockSize / lanes];
	mine = {{warpSum(mine.value[0]), warpSum(mine.value[1])},
	        {warpSum(mine.loss[0]), warpSum(mine.loss[1])},
	        warpSum(mine.filled),
	        warpSum(mine.lost)};
	if (threadIdx.x % lanes == 0)
		parts[threadIdx.x / lanes] = mine;
	__syncthreads();
	for (uint32_t i = 1; i < blockSize / lanes && threadIdx.x == 0; ++i)
		add(mine, parts[i]);
	__syncthreads();
	return mine;
}

// Loss of one side, squared, relative to the norm of the product: the larger result of both kinds of weights.
__device__ inline double shareOf(const BandTotals &mine, const BandTotals &others)
{
	double share = 0;
	AUTOAMP_UNROLL
	for (int i = 0; i < 2; ++i) {
		const double norm = mine.value[i] > 0 ? mine.value[i] : others.value[i];
		share = norm > 0 ? max(share, mine.loss[i] / norm) : share;
	}
	return share;
}

// Adds up the chunks of one band of lines. If it is the last band of its group, compares the totals of the group.
static __device__ __attribute__((noinline)) void finishBand(const Parameters &p, int operand, int64_t group,
                                                            int64_t band)
{
	const Strict &strict = p.strict;
	const Strict::Side &side = strict.side[operand];
	const int64_t line = band * tileWide + threadIdx.x / probes;
	const uint32_t probe = threadIdx.x % probes;
	double value = 0, loss = 0;
	for (int64_t chunk = 0; chunk < side.chunks && line < side.lines; ++chunk) {
		const ProbeSums &sums = strictAt<ProbeSums>(p, side.sums)[(group * side.chunks + chunk) * side.lines + line];
		const int base = strictAt<int32_t>(p, side.bases)[(group * side.bands + band) * side.chunks + chunk];
		if (base == noBase)
			continue;
		value += static_cast<double>(sums.value[probe]) * doublePowerOfTwo(base);
		loss += static_cast<double>(sums.loss[probe]) * doublePowerOfTwo(base);
	}
	value *= value, loss *= loss;
	value += __shfl_xor_sync(0xffffffffu, value, 1);
	loss += __shfl_xor_sync(0xffffffffu, loss, 1);
	const double otherValue = __shfl_xor_sync(0xffffffffu, value, 2), allValue = value + otherValue;
	const double otherLoss = __shfl_xor_sync(0xffffffffu, loss, 2), allLoss = loss + otherLoss;
	BandTotals totals = {};
	if (probe == 0)
		totals = {{value, otherValue},
		          {loss, otherLoss},
		          allValue > 0,
		          allValue > 0 && allLoss > lineLoss * lineLoss * allValue};
	totals = blockTotals(totals);
	if (threadIdx.x == 0)
		strictAt<BandTotals>(p, side.totals)[group * side.bands + band] = totals;

	StrictTotals &call = *strictAt<StrictTotals>(p, strict.counters);
	uint32_t *const counters = reinterpret_cast<uint32_t *>(&call + 1);
	if (!isLastOf(counters[group], static_cast<uint32_t>(strict.side[0].bands + strict.side[1].bands)))
		return;
	BandTotals ofSide[operands];
	AUTOAMP_LOOP
	for (int i = 0; i < operands; ++i) {
		const Strict::Side &each = strict.side[i];
		BandTotals sum = {};
		for (int64_t at = threadIdx.x; at < each.bands; at += blockSize)
			add(sum, strictAt<BandTotals>(p, each.totals)[group * each.bands + at]);
		sum = blockTotals(sum);
		if (i == 0)
			ofSide[0] = sum;
		else
			ofSide[1] = sum;
	}
	if (threadIdx.x != 0)
		return;
	// The rows show the loss of A, the columns that of B, each relative to their own measure of the norm: if the
	// weights of the other operand's lines nearly cancel, they do so in both.
	const double ofA = shareOf(ofSide[0], ofSide[1]), ofB = shareOf(ofSide[1], ofSide[0]), both = ofA + ofB;
	atomicMax(&call.worst, bitsOf(static_cast<float>(min(sqrt(both), 1e30))));
	if (both > productLoss * productLoss) {
		atomicMax(&call.isLossy, 1u);
		atomicAdd(&call.votes[ofB > ofA], 1u);
	}
	atomicAdd(&call.lost[0], ofSide[0].lost), atomicAdd(&call.filled[0], ofSide[0].filled);
	atomicAdd(&call.lost[1], ofSide[1].lost), atomicAdd(&call.filled[1], ofSide[1].filled);
}

// The sums of one k over all lines, for eight threads that share it; valid in the first. Both operands.
static __device__ inline void gatherK(const Parameters &p, int operand, int64_t group, int64_t k, bool isInside,
                                      ProbeTile &tile)
{
	constexpr uint32_t sharers = blockSize / tileDeep;
	const uint32_t slot = threadIdx.x % sharers, index = threadIdx.x / sharers;
	AlongK theirs = {};
	uint32_t mine = 0;
	for (int64_t part = slot; isInside && part < p.strict.side[1 - operand].parts; part += sharers)
		merge(theirs, alongKOf(p, 1 - operand, group, part)[k]);
	for (int64_t part = slot; isInside && part < p.strict.side[operand].parts; part += sharers)
		mine = max(mine, alongKOf(p, operand, group, part)[k].word & magnitudeMask);
	for (uint32_t step = 1; step < sharers; step *= 2) {
		AlongK next = {};
		AUTOAMP_UNROLL
		for (int i = 0; i < probes; ++i)
			next.value[i] = __shfl_xor_sync(0xffffffffu, theirs.value[i], step);
		next.word = __shfl_xor_sync(0xffffffffu, theirs.word, step);
		merge(theirs, next);
		mine = max(mine, __shfl_xor_sync(0xffffffffu, mine, step));
	}
	if (slot != 0)
		return;
	tile.strict[index].down = -strictExponent(mine);
	tile.strict[index].base =
	    mine == 0 || (theirs.word & magnitudeMask) == 0 ? noBase : strictExponent(mine) + strictExponent(theirs.word);
	AUTOAMP_UNROLL
	for (int i = 0; i < probes; ++i)
		tile.strict[index].value[i] = theirs.value[i];
}

// x * 2^(shift + exponent). The product of two powers of two need not be a float. Inf and NaN stay, and 0 does.
__device__ inline float mended(float x, int32_t shift, int exponent)
{
	if (shift == signsOnly)
		return (bitsOf(x) & magnitudeMask) - 1 < infinityBits - 1 ? floatOf((bitsOf(x) & ~magnitudeMask) | bitsOf(1.0f))
		                                                          : x;
	const int all = shift + exponent, first = max(minExponent, min(all, maxExponent));
	return x * powerOfTwo(first) * powerOfTwo(max(minExponent, min(all - first, maxExponent)));
}

// Shift of one k for the elements of an operand. The shifts of A and B cancel each other.
__device__ inline int32_t shiftOf(const Parameters &p, int operand, int64_t group, int64_t k)
{
	const int32_t shift = strictAt<const int32_t>(p, p.strict.shifts)[group * p.strict.k + k];
	return operand == 0 || shift == signsOnly ? shift : -shift;
}

// Multiplies each line of an operand by the sums of the other one. exponent: that of the copy. isMending: with the
// shifts, which it also applies to the copy.
template <bool isMending>
static __device__ __attribute__((noinline)) void strictLines(const Parameters &p, int operand, int exponent,
                                                             ProbeTile &tile)
{
	const Strict &strict = p.strict;
	const Strict::Side &side = strict.side[operand];
	const int thread = static_cast<int>(threadIdx.x), wide = thread % tileWide, slice = thread / tileWide;
	const float scale = powerOfTwo(exponent);
	constexpr uint32_t smallestNormalHalf = 0x38800000, halfOfSmallest = 0x33000000; // 2^-14, 2^-25
	uint32_t *const counters = strictAt<uint32_t>(p, strict.counters) + sizeof(StrictTotals) / sizeof(uint32_t) +
	                           strict.groups + (operand == 0 ? 0 : strict.groups * strict.side[0].bands);
	for (int64_t at = blockFor(operand); at < strict.groups * side.bands * side.chunks; at += gridDim.x) {
		const Unit unit(at, side.bands, side.chunks);
		const Lines lines(p, operand, unit.group);
		const int64_t firstLine = unit.band * tileWide, end = min((unit.part + 1) * side.depthOfChunk, strict.k);
		float sums[probeSums] = {};
		int base = noBase; // the sums are divided by 2^base
		for (int64_t deep = unit.part * side.depthOfChunk; deep < end; deep += tileDeep) {
			AUTOAMP_LOOP
			for (int i = 0; i < tileShare; ++i) {
				const InTile in(i, p.isAlongRows[operand]);
				float x = 0;
				if (deep + in.down < end && firstLine + in.across < side.lines) {
					const Lines::Place place = lines.at(firstLine + in.across, deep + in.down);
					x = *place.source;
					if constexpr (isMending)
						*place.target = __half_as_ushort(
						    __float2half_rn(mended(x, shiftOf(p, operand, unit.group, deep + in.down), exponent)));
				}
				tile.x[in.place()] = x;
			}
			if (isMending && thread < tileDeep && deep + thread < end)
				tile.strict[thread].shift = shiftOf(p, operand, unit.group, deep + thread);
			const int64_t k = deep + thread / (blockSize / tileDeep);
			gatherK(p, operand, unit.group, k, k < end, tile);
			__syncthreads();
			int highest = base;
			for (int i = 0; i < tileDeep; ++i)
				highest = max(highest, tile.strict[i].base);
			if (thread < tileDeep * probes) {
				const int mine = tile.strict[thread / probes].base;
				tile.strict[thread / probes].value[thread % probes] *=
				    mine == noBase ? 0.0f : atMostOne(mine - highest);
			}
			AUTOAMP_UNROLL
			for (int i = 0; i < probeSums; ++i)
				sums[i] *= base == noBase ? 0.0f : atMostOne(base - highest);
			base = highest;
			__syncthreads();
			for (int i = slice * (tileDeep / slices); i < (slice + 1) * (tileDeep / slices); ++i) {
				const float x = tile.x[i * (tileWide + 1) + wide];
				if ((bitsOf(x) & magnitudeMask) - 1 >= infinityBits - 1)
					continue; // 0, Inf or NaN
				const int down = tile.strict[i].down, shift = isMending ? tile.strict[i].shift : 0;
				const float value = x * powerOfTwo(down), scaled = isMending ? mended(x, shift, exponent) : x * scale;
				const uint32_t magnitude = bitsOf(scaled) & magnitudeMask;
				AUTOAMP_UNROLL
				for (int probe = 0; probe < probes; ++probe)
					sums[probe] = fmaf(value, tile.strict[i].value[probe], sums[probe]);
				if (magnitude >= smallestNormalHalf)
					continue;
				// At most half of the smallest subnormal becomes 0, and the scaled x may have lost bits.
				const float loss =
				    magnitude <= halfOfSmallest ? value : lossOf(scaled) * powerOfTwo(down - exponent - shift);
				AUTOAMP_UNROLL
				for (int probe = 0; probe < probes; ++probe)
					sums[probes + probe] = fmaf(loss, tile.strict[i].value[probe], sums[probes + probe]);
			}
			__syncthreads();
		}
		AUTOAMP_UNROLL
		for (int i = 0; i < probeSums; ++i)
			tile.x[thread * probeSums + i] = sums[i];
		__syncthreads();
		float *const target = reinterpret_cast<float *>(
		    strictAt<ProbeSums>(p, side.sums) + (unit.group * side.chunks + unit.part) * side.lines + firstLine);
		for (int i = thread; i < tileWide * probeSums && firstLine + i / probeSums < side.lines;
		     i += static_cast<int>(blockSize)) {
			float sum = 0;
			for (int from = 0; from < slices; ++from)
				sum += tile.x[from * tileWide * probeSums + i];
			target[i] = sum;
		}
		const int64_t band = unit.group * side.bands + unit.band;
		if (thread == 0)
			strictAt<int32_t>(p, side.bases)[band * side.chunks + unit.part] = base;
		if (isLastOf(counters[band], static_cast<uint32_t>(side.chunks)))
			finishBand(p, operand, unit.group, unit.band);
	}
}

// Largest element and non-finite flag of one k, in the form of AlongK::word.
__device__ inline uint32_t wordOfK(const Parameters &p, int operand, int64_t group, int64_t k)
{
	uint32_t most = 0, flag = 0;
	for (int64_t part = 0; part < p.strict.side[operand].parts; ++part) {
		const uint32_t word = alongKOf(p, operand, group, part)[k].word;
		most = max(most, word & magnitudeMask), flag |= word & nonfiniteFlag;
	}
	return most | flag;
}

// Runs in one block, for a product that loses too much: the shift of each k that makes the largest elements of both
// operands equal, the exponents of the shifted operands, and alpha. If an operand has no finite element but 0 at a k,
// the result needs only the signs of the other one's elements: 0 times any of them is 0, Inf times it is Inf.
static __device__ __attribute__((noinline)) void planMending(const Parameters &p, const StrictTotals &totals,
                                                             float alpha)
{
	__shared__ int32_t highest[operands];
	if (threadIdx.x < operands)
		highest[threadIdx.x] = noBase;
	__syncthreads();
	const Strict &strict = p.strict;
	int32_t *const shifts = strictAt<int32_t>(p, strict.shifts);
	for (int64_t at = threadIdx.x; at < strict.groups * strict.k; at += blockSize) {
		const int64_t group = quotientOf(at, strict.k), k = at - group * strict.k;
		uint32_t word[operands], magnitude[operands];
		AUTOAMP_UNROLL
		for (int i = 0; i < operands; ++i)
			word[i] = wordOfK(p, i, group, k), magnitude[i] = word[i] & magnitudeMask;
		const bool isShifted = magnitude[0] && magnitude[1];
		const int32_t shift = isShifted ? (exponentOf(magnitude[1]) - exponentOf(magnitude[0])) >> 1 : signsOnly;
		shifts[at] = shift;
		AUTOAMP_UNROLL
		for (int i = 0; i < operands; ++i)
			if (isShifted)
				atomicMax(&highest[i], exponentOf(magnitude[i]) + (i == 0 ? shift : -shift));
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		int exponent[operands]; // those for which the largest element is in [2^14, 2^15): small matrices of a batch
		                        // need it
		AUTOAMP_UNROLL
		for (int i = 0; i < operands; ++i)
			exponent[i] = max(minExponent, min(14 - highest[i], maxExponent));
		const Scales scales = scalesOf(exponent[0], exponent[1], alpha);
		p.scratch->mending = {1,
		                      {scales.exponent[0], scales.exponent[1]},
		                      scales.alpha,
		                      totals.votes[1] > totals.votes[0],
		                      floatOf(totals.worst),
		                      {totals.lost[0], totals.lost[1]}};
	}
	__syncthreads();
	clearCounters(p, threadIdx.x, blockSize); // for the measure of strictMend()
}

// Runs in settle, after the copies are right. The last block decides.
static __device__ __attribute__((noinline)) void strictSettle(const Parameters &p, const Findings &found)
{
	ProbeTile &tile = probeTile();
	if (found.amax[0] == 0 || found.amax[1] == 0)
		return; // the product is 0 too, or all Inf and NaN
	const float alpha = p.alpha ? *p.alpha : p.alphaValue;
	const Scales scales = scalesFor(found.amax[0], found.amax[1], alpha);
	for (int i = 0; i < operands; ++i)
		strictLines<false>(p, i, i == 0 ? scales.exponent[0] : scales.exponent[1], tile);
	StrictTotals &totals = *strictAt<StrictTotals>(p, p.strict.counters);
	if (!isLastOf(totals.done, gridDim.x))
		return;
	if (totals.isLossy) {
		planMending(p, totals, alpha);
		return;
	}
	// Balancing along k does not help lines. They are reported as often as by the sampled check.
	if (threadIdx.x != 0 || !p.sites || !isRegular(atomicAdd(&siteOf(p).calls, 1u)))
		return;
	const bool areLost = uint64_t{totals.lost[0]} * linesPerLost > totals.filled[0] ||
	                     uint64_t{totals.lost[1]} * linesPerLost > totals.filled[1];
	const int worse = totals.lost[1] > totals.lost[0], exponent = worse ? scales.exponent[1] : scales.exponent[0];
	if (areLost)
		report(p, EventKind::underflow, worse, exponent, exponent, found.amax[worse],
		       {floatOf(totals.worst), totals.lost[0], totals.lost[1]});
}

// Runs after settle: converts the operands of a product that loses too much again, with the shifts, and measures what
// it still loses. The last block reports it.
static __device__ __attribute__((noinline)) void strictMend(const Parameters &p)
{
	ProbeTile &tile = probeTile();
	const Mending &mending = p.scratch->mending;
	AUTOAMP_LOOP
	for (int i = 0; i < operands; ++i)
		strictLines<true>(p, i, mending.exponent[i], tile);
	StrictTotals &totals = *strictAt<StrictTotals>(p, p.strict.counters);
	if (!isLastOf(totals.done, gridDim.x) || threadIdx.x != 0)
		return;
	p.scratch->alpha = mending.alpha;
	const bool isCured = !totals.isLossy;
	if (!isCured && p.strict.isUncured)
		*p.strict.isUncured = 1;
	const uint32_t worse = isCured ? mending.worse : totals.votes[1] > totals.votes[0];
	report(p, isCured ? EventKind::mended : EventKind::uncured, worse, p.scratch->right[worse], mending.exponent[worse],
	       p.scratch->amax[worse],
	       isCured ? Loss{mending.excess, mending.lost[0], mending.lost[1]}
	               : Loss{floatOf(totals.worst), totals.lost[0], totals.lost[1]});
}

} // namespace autoamp::kernels
