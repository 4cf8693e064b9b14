// The loss check measures with random signs how much larger the error of a float16 product is than with TF32
// (docs/adr/0034). Device code and host C++, included by cast.cuh. A checked cast multiplies each operand by signs
// along its lines. A checked settle multiplies these sums by the other operand, and its last block compares the
// results.
#pragma once

namespace autoamp::kernels {

constexpr int slices = static_cast<int>(blockSize) / tileWide; // threads that share one kept index
constexpr int probeSums = 2 * probes;

static_assert(sizeof(ProbeSums) == probeSums * sizeof(float) &&
              slices * tileWide * probeSums <= tileDeep * (tileWide + 1));
static_assert(tileWide * tileDeep % blockSize == 0 && tileDeep % slices == 0 && tileDeep * probeSums == blockSize);

// For one k or line of a tile in a strict check (strict.cuh).
struct StrictWeight {
	float value[probes];
	int32_t down, base, shift, unused;
};

// Each row has one extra word, so that a warp has no bank conflicts when it writes columns.
struct ProbeTile {
	union {
		ProbeSums weight[tileDeep];
		StrictWeight strict[tileDeep];
	};
	float x[tileDeep * (tileWide + 1)];
};

// One tile for all checks: a kernel with two of them would have fewer blocks on a multiprocessor.
static __device__ inline ProbeTile &probeTile()
{
	__shared__ ProbeTile tile;
	return tile;
}

// Random signs of one line: a pure function of its index, so that nothing is stored and replays use the same signs.
// Columns of B and rows of A have different signs.
__device__ inline uint64_t signsOf(int64_t index, bool isRowOfA)
{
	uint64_t hash = (static_cast<uint64_t>(index) + 1 + isRowOfA) * 0x9e3779b97f4a7c15u;
	hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9u;
	return hash ^ hash >> 32;
}

// Error of half for a scaled x in addition to that of TF32. It is exactly 0 unless 0 < |x| < 2^-14, because above that
// both have 11 bits.
__device__ inline float lossOf(float x)
{
	constexpr uint32_t smallestNormalHalf = 0x38800000;
	const uint32_t bits = bitsOf(x), magnitude = bits & magnitudeMask;
	if (magnitude - 1 >= smallestNormalHalf - 1)
		return 0;
	const uint32_t tf32 = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
	return floatOf(tf32) - floatOfHalf(__half_as_ushort(__float2half_rn(x)));
}

// Addresses of the sums of one operand. A shared operand has one matrix of sums along k, but lines for each product.
struct SumsOf {
	ProbeSums *alongK, *lines;
	int64_t k, lineCount, parts;
	int64_t batch; // number of checked matrices of the operand

	__device__ ProbeSums *alongKOf(int64_t matrix, int64_t part) const
	{
		return alongK + ((batch > 1 ? matrix : 0) * parts + part) * k;
	}
	__device__ ProbeSums *linesOf(int64_t matrix) const { return lines + matrix * lineCount; }
};

__device__ inline int64_t productBatch(const Parameters &p)
{
	return max(p.operand[0].batch, p.operand[1].batch);
}

__device__ inline SumsOf sumsOf(const Parameters &p, int operand)
{
	const int64_t products = checkedMatrices(productBatch(p));
	SumsOf found = {};
	ProbeSums *next = p.sums;
	for (int i = 0; i <= operand; ++i) {
		const Operand &it = p.operand[i];
		found.k = p.isAlongRows[i] ? it.rows : it.columns;
		found.lineCount = p.isAlongRows[i] ? it.columns : it.rows;
		found.batch = checkedMatrices(it.batch);
		found.parts = partsOf(found.k, found.lineCount, found.batch);
		found.alongK = next;
		found.lines = found.alongK + found.batch * found.parts * found.k;
		next = found.lines + products * found.lineCount;
	}
	return found;
}

// True for the first two calls of a site, and for one in 127.
__device__ inline bool isRegular(uint32_t call)
{
	return call < 2 || call % checkedEvery == 0;
}

__device__ inline SiteState &siteOf(const Events &p)
{
	return p.sites[p.site < siteCount ? p.site : 0];
}

// First matrix of a batch that this call checks.
__device__ inline int64_t firstMatrixOf(const Parameters &p, uint32_t call)
{
	return mostChecked * (call / checkedEvery) % max(productBatch(p), int64_t{1});
}

// The sums in the cast are of x * 2^sumExponent.
__device__ inline int sumExponentOf(uint32_t flags, int used)
{
	return flags & flagPredicted ? max(used - predictedShift, minExponent) : unpredictedExponent;
}

// One pass over an operand. For each index in one direction, sums over the other direction: of x * weight.value, and of
// the float16 loss, loss(x) * weight.value + x * weight.loss. The sums are stored, or added to those of other blocks.
// Callables: weightOf(matrix, index, place of the number in a ProbeSums), targetOf(matrix, part). Returns this thread's
// share of the energy of loss(x) * weight.value.
template <bool isAdded, class WeightOf, class TargetOf>
static __device__ inline float sumShare(const Operand &operand, uint32_t block, bool isOverRows, int64_t first,
                                        float scale, float lossScale, ProbeTile &tile, int64_t matrices, int64_t wanted,
                                        WeightOf weightOf, TargetOf targetOf)
{
	const int64_t kept = isOverRows ? operand.columns : operand.rows;
	const int64_t depth = isOverRows ? operand.rows : operand.columns;
	const int64_t bands = (kept + tileWide - 1) / tileWide, tiles = (depth + tileDeep - 1) / tileDeep;
	if (bands == 0 || tiles == 0)
		return 0;
	const int64_t tilesOfChunk = tilesOfPart(tiles, wanted);
	const int64_t chunks = (tiles + tilesOfChunk - 1) / tilesOfChunk;
	const int thread = static_cast<int>(threadIdx.x), wide = thread % tileWide, slice = thread / tileWide;
	float energy = 0;
	for (int64_t unit = block; unit < bands * matrices * chunks; unit += gridDim.x) {
		const int64_t matrix = unit / (bands * chunks), band = unit / chunks % bands, chunk = unit % chunks;
		const int64_t stored = operand.batch > 1 ? (first + matrix) % operand.batch : 0;
		const float *const source = operand.isArray ? reinterpret_cast<const float *const *>(operand.source)[stored]
		                                            : operand.source + stored * operand.sourceStride;
		const int64_t firstKept = band * tileWide;
		const int64_t end = min((chunk + 1) * tilesOfChunk * tileDeep, depth);
		float sums[probeSums] = {};
		for (int64_t deep = chunk * tilesOfChunk * tileDeep; deep < end; deep += tileDeep) {
			AUTOAMP_UNROLL
			for (int i = 0; i < tileWide * tileDeep / static_cast<int>(blockSize); ++i) {
				const int at = i * static_cast<int>(blockSize) + thread; // adjacent threads read adjacent elements
				const int down = isOverRows ? at % tileDeep : at / tileWide,
				          across = isOverRows ? at / tileDeep : at % tileWide;
				float x = 0;
				if (deep + down < end && firstKept + across < kept)
					x = isOverRows ? source[(firstKept + across) * operand.sourceLd + deep + down]
					               : source[(deep + down) * operand.sourceLd + firstKept + across];
				tile.x[down * (tileWide + 1) + across] = (bitsOf(x) & magnitudeMask) < infinityBits ? x : 0.0f;
			}
			if (deep + thread / probeSums < end)
				reinterpret_cast<float *>(tile.weight)[thread] =
				    weightOf(matrix, deep + thread / probeSums, thread % probeSums);
			__syncthreads();
			const int left = static_cast<int>(min(end - deep, int64_t{tileDeep}));
			for (int i = slice * (tileDeep / slices); i < (slice + 1) * (tileDeep / slices) && i < left; ++i) {
				const float x = tile.x[i * (tileWide + 1) + wide], value = x * scale, loss = lossOf(x * lossScale);
				const ProbeSums weight = tile.weight[i];
				AUTOAMP_UNROLL
				for (int probe = 0; probe < probes; ++probe) {
					sums[probe] = fmaf(value, weight.value[probe], sums[probe]);
					sums[probes + probe] = fmaf(value, weight.loss[probe], sums[probes + probe]);
				}
				if (loss != 0) {
					AUTOAMP_UNROLL
					for (int probe = 0; probe < probes; ++probe) {
						const float lost = loss * weight.value[probe];
						sums[probes + probe] += lost;
						energy = fmaf(lost, lost, energy);
					}
				}
			}
			__syncthreads();
		}
		AUTOAMP_UNROLL
		for (int i = 0; i < probeSums; ++i)
			tile.x[thread * probeSums + i] = sums[i];
		__syncthreads();
		float *const target = reinterpret_cast<float *>(targetOf(matrix, chunk) + firstKept);
		for (int at = thread; at < tileWide * probeSums; at += static_cast<int>(blockSize)) {
			float sum = 0;
			for (int i = 0; i < slices; ++i)
				sum += tile.x[i * tileWide * probeSums + at];
			if (firstKept + at / probeSums >= kept)
				continue;
			if (!isAdded)
				target[at] = sum;
			else if (sum != 0)
				atomicAdd(&target[at], sum);
		}
		__syncthreads();
	}
	return energy;
}

// Runs in the cast: for each k, sums with random signs of the values, and of their loss with the exponent that the
// block used. The blocks also write the zeros to which settle adds.
static __device__ __attribute__((noinline)) void probeCast(const Parameters &p, const CastRecord &record, int operand,
                                                           uint32_t block)
{
	ProbeTile &tile = probeTile();
	const SumsOf sums = sumsOf(p, operand);
	const int used = record.used[operand];
	const int64_t words =
	    checkedMatrices(productBatch(p)) * sums.lineCount * int64_t{sizeof(ProbeSums) / sizeof(uint4)};
	const int64_t step = int64_t{gridDim.x} * blockSize;
	for (int64_t i = int64_t{block} * blockSize + threadIdx.x; i < words; i += step)
		__stwb(reinterpret_cast<uint4 *>(sums.lines) + i, uint4{});
	if (block == 0 && threadIdx.x == 0) {
		p.scratch->lossEnergy[operand] = 0;
		p.scratch->checkers = 0;
	}
	sumShare<false>(
	    p.operand[operand], block, !p.isAlongRows[operand], firstMatrixOf(p, record.call),
	    powerOfTwo(sumExponentOf(record.flags, used)), powerOfTwo(used), tile, sums.batch,
	    partsWanted(sums.k, sums.batch),
	    [operand](int64_t, int64_t index, int place) {
		    const uint64_t signs = signsOf(index, operand == 0);
		    return place >= probes ? 0.0f : signs >> place & 1 ? -1.0f : 1.0f;
	    },
	    [&sums](int64_t matrix, int64_t part) { return sums.alongKOf(matrix, part); });
}

// Runs at the end of settle, on one thread. Only now the number of the call is known: calls of one site in flight on
// other streams may have read the same count. If this number is one to check and the cast did not check, or if its
// blocks did not agree, the next call is checked.
__device__ inline void countCall(const Parameters &p, const Findings &found)
{
	p.scratch->isChecked = found.isChecked();
	if (!p.sums || !p.sites)
		return;
	SiteState &site = siteOf(p);
	const bool isDue = isRegular(atomicAdd(&site.calls, 1u));
	if (found.wasChecked || isDue)
		site.isCheckedAgain = !found.isChecked();
}

// Totals over the lines of one matrix, for rows and for columns.
struct LineTotals {
	double value[operands], loss[operands];
	uint32_t filled[operands], lost[operands];
};

template <class Number>
static __device__ inline Number warpSum(Number number)
{
	for (uint32_t step = lanes / 2; step > 0; step /= 2)
		number += __shfl_xor_sync(0xffffffffu, number, step);
	return number;
}

// Returns the sum over the block, to all of its threads.
static __device__ inline float blockSum(float number)
{
	__shared__ float parts[blockSize / lanes];
	const float ofWarp = warpSum(number);
	if (threadIdx.x % lanes == 0)
		parts[threadIdx.x / lanes] = ofWarp;
	__syncthreads();
	float sum = 0;
	for (uint32_t part = 0; part < blockSize / lanes; ++part)
		sum += parts[part];
	__syncthreads();
	return sum;
}

// Returns the totals over the lines of one matrix, summed by the whole block; valid only in thread 0.
static __device__ inline LineTotals totalsOf(const Parameters &p, int64_t matrix)
{
	__shared__ LineTotals parts[blockSize / lanes];
	LineTotals totals = {};
	for (int i = 0; i < operands; ++i) {
		const SumsOf sums = sumsOf(p, i);
		const ProbeSums *const lines = sums.linesOf(matrix);
		double value = 0, loss = 0;
		uint32_t filled = 0, lost = 0;
		for (int64_t at = threadIdx.x; at < sums.lineCount; at += blockSize) {
			const ProbeSums line = lines[at];
			double y = 0, x = 0;
			for (int probe = 0; probe < probes; ++probe) {
				y += static_cast<double>(line.value[probe]) * static_cast<double>(line.value[probe]);
				x += static_cast<double>(line.loss[probe]) * static_cast<double>(line.loss[probe]);
			}
			value += y, loss += x;
			filled += y > 0;
			lost += y > 0 && x > lineLoss * lineLoss * y;
		}
		totals.value[i] = warpSum(value), totals.loss[i] = warpSum(loss);
		totals.filled[i] = warpSum(filled), totals.lost[i] = warpSum(lost);
	}
	if (threadIdx.x % lanes == 0)
		parts[threadIdx.x / lanes] = totals;
	__syncthreads();
	if (threadIdx.x == 0)
		for (uint32_t part = 1; part < blockSize / lanes; ++part)
			for (int i = 0; i < operands; ++i) {
				totals.value[i] += parts[part].value[i], totals.loss[i] += parts[part].loss[i];
				totals.filled[i] += parts[part].filled[i], totals.lost[i] += parts[part].lost[i];
			}
	__syncthreads();
	return totals;
}

// Runs in settle: multiplies each line of an operand by the sums of the other operand; the last block compares and
// reports. The exponents are those without a shrink for alpha, which costs all strategies the same. Not inlined,
// because it would take registers from the recast.
static __device__ __attribute__((noinline)) void probeSettle(const Parameters &p, const Findings &found)
{
	Scratch &scratch = *p.scratch;
	ProbeTile &tile = probeTile();
	__shared__ bool isLast;
	const int64_t matrices = checkedMatrices(productBatch(p));
	int exponent[operands], sumExponent[operands];
	bool isPredicted[operands], isExact = true; // by the cast, which made the sums that are read here
	AUTOAMP_UNROLL
	for (int i = 0; i < operands; ++i) {
		const uint32_t amax = found.amax[i];
		if (amax == 0)
			return; // the product is 0 too
		exponent[i] = rightExponent(amax);
		sumExponent[i] = sumExponentOf(found.flags, found.lowest[i]);
		isPredicted[i] = found.lowest[i] == exponent[i];
		// 20 bits above the smallest normal fp32 number are enough for the check.
		isExact = isExact && exponentOf(amax) + sumExponent[i] >= minExponent + 20;
	}
	for (int i = 0; i < operands; ++i) {
		const int other = 1 - i, shift = exponent[other] - sumExponent[other];
		const float first = powerOfTwo(shift / 2), second = powerOfTwo(shift - shift / 2);
		const bool hasLoss = isPredicted[other];
		const SumsOf given = sumsOf(p, other), mine = sumsOf(p, i);
		const float scale = powerOfTwo(exponent[i]);
		const int64_t units = ((p.isAlongRows[i] ? p.operand[i].columns : p.operand[i].rows) + tileWide - 1) / tileWide;
		const float energy = sumShare<true>(
		    p.operand[i], blockFor(i), p.isAlongRows[i], firstMatrixOf(p, found.call), scale, scale, tile, matrices,
		    max(gridDim.x / max(units * matrices, int64_t{1}), int64_t{1}),
		    [&](int64_t matrix, int64_t index, int place) {
			    float sum = 0;
			    for (int64_t part = 0; part < given.parts; ++part)
				    sum += reinterpret_cast<const float *>(given.alongKOf(matrix, part) + index)[place];
			    return place < probes ? sum * first * second : hasLoss ? sum : 0.0f;
		    },
		    [&](int64_t matrix, int64_t) { return mine.linesOf(matrix); });
		const float all = blockSum(energy);
		if (threadIdx.x == 0 && all > 0)
			atomicAdd(&scratch.lossEnergy[i], all);
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		__threadfence_system(); // publishes the sums of this block, and drops values that were read before
		isLast = atomicAdd(&scratch.checkers, 1u) == gridDim.x - 1;
		__threadfence_system();
	}
	__syncthreads();
	if (!isLast)
		return;

	double worst = 0;
	bool isLossy = false;
	uint32_t filled[operands] = {}, lost[operands] = {};
	for (int64_t matrix = 0; matrix < matrices; ++matrix) {
		const LineTotals totals = totalsOf(p, matrix);
		if (threadIdx.x != 0)
			continue;
		// The totals of rows contain the whole loss if B was predicted, those of columns if A was. Otherwise they
		// contain only the loss of their own operand.
		const double loss = isPredicted[0] != isPredicted[1] ? totals.loss[isPredicted[1] ? 0 : 1]
		                    : isPredicted[0]                 ? (totals.loss[0] + totals.loss[1]) / 2
		                                                     : totals.loss[0] + totals.loss[1];
		const double value = (totals.value[0] + totals.value[1]) / 2;
		isExact = isExact && value + loss < static_cast<double>(INFINITY);
		if (value > 0)
			worst = max(worst, loss / value);
		isLossy = isLossy || loss > productLoss * productLoss * value;
		for (int i = 0; i < operands; ++i)
			filled[i] += totals.filled[i], lost[i] += totals.lost[i];
	}
	if (threadIdx.x != 0)
		return;
	// A call without correct predictions measures only a part of the loss, so the next call is checked too.
	if (found.flags & flagRegular && !(isExact && isPredicted[0] && isPredicted[1]))
		siteOf(p).isCheckedAgain = 1;
	for (int i = 0; i < operands; ++i)
		isLossy = isLossy || uint64_t{lost[i]} * linesPerLost > filled[i];
	if (!isExact || !isLossy)
		return;
	const int worse = scratch.lossEnergy[1] > scratch.lossEnergy[0];
	report(p, EventKind::underflow, worse, exponent[worse], exponent[worse], found.amax[worse],
	       {static_cast<float>(sqrt(worst)), lost[0], lost[1]});
}

} // namespace autoamp::kernels
