// The audit kernels: the error of a lowered product, measured with random signs while the product runs in 16 bits
// (docs/adr/0049). Device code and host C++, included after cast.cuh. All sums are in double and in an order that
// depends on the shape alone, so the result of an audit is a function of the data.
#pragma once

#include "kernels/audit.h"
#include "kernels/cast.cuh"

namespace autoamp::kernels {

struct AuditTile {
	int64_t keptOffset[tileWide], summedOffset[tileDeep];
	int64_t keptAt[mostGathered][tileWide], summedAt[mostGathered][tileDeep]; // shares of coordinates
	double weight[tileDeep * probes];
	union {
		float x[tileDeep * (tileWide + 1)];
		double partial[static_cast<int>(blockSize) * probes];
	};
	float reference[tileDeep * (tileWide + 1)];
};

__device__ inline const AuditOperand &operandOf(const AuditCall &p, int pass)
{
	if (pass >= rowsOfD)
		return p.d;
	if (pass == sourceRows || pass == sourceColumns)
		return p.c;
	return pass == ofColumnSigns || pass == productColumns ? p.b : p.a;
}

// Memory of the sums of one pass, for one matrix and part.
__device__ inline AuditSums *auditSumsOf(const AuditCall &p, int pass, int64_t matrix, int64_t part)
{
	AuditSums *sums = p.sums;
	for (int earlier = 0; earlier < pass; ++earlier)
		sums += hasPass(p, earlier) ? sumsOfPass(p, earlier) : 0;
	return sums + (matrix * auditParts(p, pass) + part) * keptBy(p, pass).size;
}

__device__ inline double auditAlpha(const AuditCall &p)
{
	return static_cast<double>(p.alpha ? *p.alpha : p.alphaValue);
}
__device__ inline double auditBeta(const AuditCall &p)
{
	return static_cast<double>(p.beta ? *p.beta : p.betaValue);
}

// True if the data of the call need this pass: the vendor reads no C with a beta of 0, and no operand with an alpha of
// 0.
__device__ inline bool isNeeded(const AuditCall &p, int pass)
{
	if (!hasPass(p, pass))
		return false;
	if (pass == sourceRows || pass == sourceColumns)
		return auditBeta(p) != 0;
	return pass >= rowsOfD || auditAlpha(p) != 0;
}

// Writes the address of an index along an axis, and its share of the coordinates. One thread calls it for one index.
static __device__ inline void placeIndex(const AuditCall &p, const AuditOperand &operand, const Axis &axis, int which,
                                         bool isGathered, int64_t index, int64_t &offset, int64_t *at, int apart)
{
	offset = 0;
	AUTOAMP_LOOP
	for (int level = 0; level < axis.levels; ++level) {
		const int64_t next = level + 1 < axis.levels ? quotientOf(index, axis.extent[level]) : 0;
		const int64_t here = index - next * axis.extent[level];
		offset += here * operand.stride[which][level];
		if (isGathered && level < mostGathered)
			at[level * apart] = here * p.gather.factor[which][level];
		index = next;
	}
	for (int level = axis.levels; isGathered && level < p.gather.dimensions; ++level)
		at[level * apart] = 0;
}

// Adds the address of the spatial coordinates of an element. Returns false if the element is padding.
static __device__ inline bool gather(const AuditCall &p, const AuditTile &tile, int kept, int summed, int64_t &offset)
{
	AUTOAMP_LOOP
	for (int i = 0; i < p.gather.dimensions; ++i) {
		const int64_t at = p.gather.base[i] + tile.keptAt[i][kept] + tile.summedAt[i][summed];
		if (at < 0)
			return false;
		const int64_t unit = p.gather.divisor[i] == 1 ? at : quotientOf(at, p.gather.divisor[i]);
		if (unit >= p.gather.extent[i] || unit * p.gather.divisor[i] != at)
			return false;
		offset += unit * p.gather.stride[i];
	}
	return true;
}

// Reads up to tileDeep x tileWide elements, 0 for others. Adjacent threads read adjacent elements where possible.
static __device__ inline void loadTile(const AuditCall &p, AuditTile &tile, const float *source, const float *reference,
                                       bool isGathered, bool isSummedAdjacent, int kept, int summed)
{
	const int thread = static_cast<int>(threadIdx.x);
	AUTOAMP_LOOP
	for (int i = 0; i < tileWide * tileDeep / static_cast<int>(blockSize); ++i) {
		const int at = i * static_cast<int>(blockSize) + thread;
		const int down = isSummedAdjacent ? at % tileDeep : at / tileWide,
		          across = isSummedAdjacent ? at / tileDeep : at % tileWide;
		float x = 0, y = 0;
		if (down < summed && across < kept) {
			int64_t offset = tile.keptOffset[across] + tile.summedOffset[down];
			if (!isGathered || gather(p, tile, across, down, offset)) {
				x = source[offset];
				y = reference ? reference[offset] : 0.0f;
			}
		}
		tile.x[down * (tileWide + 1) + across] = x;
		tile.reference[down * (tileWide + 1) + across] = y;
	}
}

// The weight of one summed index: a random sign, or for the product the sum over the parts of an earlier pass.
static __device__ inline double auditWeight(const AuditCall &p, int pass, int64_t matrix, int64_t index, int probe)
{
	if (pass != productRows && pass != productColumns)
		return signsOf(index, pass % 2 != 0) >> probe & 1 ? -1.0 : 1.0;
	const int signs = pass - passesBefore;
	double sum = 0;
	for (int64_t part = 0; part < auditParts(p, signs); ++part)
		sum += auditSumsOf(p, signs, matrix, part)[index].value[probe];
	return sum;
}

// Makes the sums of up to tileWide indices in one part of one matrix.
static __device__ __attribute__((noinline)) void auditUnit(const AuditCall &p, int pass, int64_t unit, AuditTile &tile)
{
	const AuditOperand &operand = operandOf(p, pass);
	const Axis &kept = keptBy(p, pass), &summed = summedBy(p, pass);
	const int ofKept = pass % 2, ofSummed = 1 - ofKept, thread = static_cast<int>(threadIdx.x);
	const int64_t parts = auditParts(p, pass), bands = (kept.size + tileWide - 1) / tileWide;
	const int64_t part = unit % parts, band = unit / parts % bands, matrix = unit / (parts * bands);
	const int64_t tiles = (summed.size + tileDeep - 1) / tileDeep;
	const int64_t deep = tilesOfPart(tiles, partsWanted(kept.size, p.matrices)) * tileDeep;
	const int64_t firstKept = band * tileWide, end = min((part + 1) * deep, summed.size);
	const int64_t stored = matrix * p.batch / p.matrices;
	const float *const source = operand.isArray ? reinterpret_cast<const float *const *>(operand.source)[stored]
	                                            : operand.source + stored * operand.matrixStride;
	const float *const reference = p.reference ? p.reference + stored * operand.matrixStride : nullptr;
	const bool isGathered = p.gather.dimensions > 0 && &operand == &p.a;
	const auto stepOf = [&](int axis) {
		const int64_t step = operand.stride[axis][0] + (isGathered ? p.gather.factor[axis][0] * p.gather.stride[0] : 0);
		return step < 0 ? -step : step;
	};
	const bool isSummedAdjacent = stepOf(ofSummed) < stepOf(ofKept);
	const int width = static_cast<int>(min(kept.size - firstKept, int64_t{tileWide}));
	if (thread < width)
		placeIndex(p, operand, kept, ofKept, isGathered, firstKept + thread, tile.keptOffset[thread],
		           &tile.keptAt[0][thread], tileWide);
	double sums[probes] = {};
	for (int64_t first = part * deep; first < end; first += tileDeep) {
		const int depth = static_cast<int>(min(end - first, int64_t{tileDeep}));
		if (thread < depth)
			placeIndex(p, operand, summed, ofSummed, isGathered, first + thread, tile.summedOffset[thread],
			           &tile.summedAt[0][thread], tileDeep);
		if (thread < depth * probes && !reference)
			tile.weight[thread] = auditWeight(p, pass, matrix, first + thread / probes, thread % probes);
		__syncthreads();
		loadTile(p, tile, source, reference, isGathered, isSummedAdjacent, width, depth);
		__syncthreads();
		const int wide = thread % tileWide, slice = thread / tileWide;
		for (int i = slice * (tileDeep / slices); i < (slice + 1) * (tileDeep / slices) && i < depth; ++i) {
			const double x = static_cast<double>(tile.x[i * (tileWide + 1) + wide]);
			if (reference) {
				const double y = static_cast<double>(tile.reference[i * (tileWide + 1) + wide]), error = x - y;
				sums[0] += error * error, sums[1] += y * y;
				continue;
			}
			AUTOAMP_UNROLL
			for (int probe = 0; probe < probes; ++probe)
				sums[probe] += x * tile.weight[i * probes + probe];
		}
		__syncthreads();
	}
	AUTOAMP_UNROLL
	for (int probe = 0; probe < probes; ++probe)
		tile.partial[thread * probes + probe] = sums[probe];
	__syncthreads();
	static_assert(tileWide * probes == blockSize);
	if (thread / probes < width) {
		double sum = 0;
		for (int slice = 0; slice < slices; ++slice)
			sum += tile.partial[slice * tileWide * probes + thread];
		auditSumsOf(p, pass, matrix, part)[firstKept + thread / probes].value[thread % probes] = sum;
	}
	__syncthreads();
}

// This block's share of the passes [first, last).
static __device__ inline void auditShare(const AuditCall &p, int first, int last, AuditTile &tile)
{
	int64_t unit = blockIdx.x;
	AUTOAMP_LOOP
	for (int pass = first; pass < last; ++pass) {
		const int64_t units = auditUnits(p, pass, pass + 1);
		if (isNeeded(p, pass))
			for (; unit < units; unit += gridDim.x)
				auditUnit(p, pass, unit, tile);
		else if (unit < units)
			unit += (units - unit + gridDim.x - 1) / gridDim.x * gridDim.x;
		unit -= units;
	}
}

// ---- the comparison, by one block

// Returns the sum, or the maximum, over the block to all of its threads.
template <class Combine>
static __device__ inline double blockCombined(double number, Combine combine)
{
	__shared__ double parts[blockSize / lanes];
	for (uint32_t step = lanes / 2; step > 0; step /= 2)
		number = combine(number, __shfl_xor_sync(0xffffffffu, number, step));
	if (threadIdx.x % lanes == 0)
		parts[threadIdx.x / lanes] = number;
	__syncthreads();
	number = parts[0];
	for (uint32_t part = 1; part < blockSize / lanes; ++part)
		number = combine(number, parts[part]);
	__syncthreads();
	return number;
}
static __device__ inline double blockAdded(double number)
{
	return blockCombined(number, [](double x, double y) { return x + y; });
}
static __device__ inline double blockLargest(double number)
{
	return blockCombined(number, [](double x, double y) { return x > y ? x : y; });
}

// The bias multiplied by signs, or the sums of the signs by which each bias is multiplied.
struct BiasSums {
	double ofBias[probes], ofSigns[probes];
};
static __device__ inline BiasSums biasSumsOf(const AuditCall &p, const float *bias)
{
	BiasSums sums = {};
	const bool isOfRows = p.biasOf == BiasOf::rows;
	const int64_t own = isOfRows ? p.row.size : p.column.size, other = isOfRows ? p.column.size : p.row.size;
	for (int probe = 0; bias && probe < probes; ++probe) {
		double ofBias = 0, ofSigns = 0;
		for (int64_t i = threadIdx.x; i < own; i += blockSize)
			ofBias += static_cast<double>(signsOf(i, isOfRows) >> probe & 1 ? -bias[i] : bias[i]);
		for (int64_t i = threadIdx.x; i < other; i += blockSize)
			ofSigns += signsOf(i, !isOfRows) >> probe & 1 ? -1.0 : 1.0;
		sums.ofBias[probe] = blockAdded(ofBias), sums.ofSigns[probe] = blockAdded(ofSigns);
	}
	return sums;
}

struct LineAudit {
	double error, value;  // square sums over the probes
	bool isRepresentable; // in fp32
};

// Compares one line. `side`: 0 rows, 1 columns.
static __device__ inline LineAudit auditLine(const AuditCall &p, int side, int64_t matrix, int64_t line,
                                             const float *bias, const BiasSums &biasSums, double alpha, double beta)
{
	constexpr double largest = 3.4028234663852886e38;
	LineAudit found = {0, 0, true};
	const auto total = [&](int pass, int probe) {
		double sum = 0;
		for (int64_t part = 0; part < auditParts(p, pass); ++part)
			sum += auditSumsOf(p, pass, matrix, part)[line].value[probe];
		return sum;
	};
	if (p.reference)
		return {total(rowsOfD + side, 0), total(rowsOfD + side, 1), true};
	AUTOAMP_LOOP
	for (int probe = 0; probe < probes; ++probe) {
		double value = alpha == 0 ? 0 : alpha * total(productRows + side, probe);
		if (beta != 0)
			value += beta * total(sourceRows + side, probe);
		if (bias) {
			const bool isOwn = (p.biasOf == BiasOf::rows) == (side == 0);
			value += isOwn ? static_cast<double>(bias[line]) * biasSums.ofSigns[probe] : biasSums.ofBias[probe];
		}
		const double error = total(rowsOfD + side, probe) - value;
		found.error += error * error, found.value += value * value;
		found.isRepresentable = found.isRepresentable && value <= largest && value >= -largest;
	}
	return found;
}

// Writes the event of an audit, with the number of the audit in the context. Its place in the ring can be reused before
// the host reads it; the numbers show this.
__device__ inline void reportAudit(const AuditCall &p, Audit audit)
{
	const uint32_t number = atomicAdd(&siteOf(p).audits, 1u) + 1;
	const uint64_t index = begin(*p.ring);
	Event &event = p.ring->events[index % ringSize];
	event.site = p.site;
	event.kind = EventKind::audit;
	event.operand = number;
	event.audit = audit;
	complete(*p.ring, index);
}

// Runs in the last block of `after`.
static __device__ __attribute__((noinline)) void compareAndReport(const AuditCall &p)
{
	const double infinity = static_cast<double>(INFINITY);
	const double alpha = auditAlpha(p), beta = auditBeta(p);
	double worst = 0, worstLine[2] = {};
	uint32_t flags = p.reference ? auditRecomputed : 0;
	bool isMeasured = false;
	for (int64_t matrix = 0; matrix < p.matrices; ++matrix) {
		const int64_t stored = matrix * p.batch / p.matrices;
		const float *const bias = p.biasOf == BiasOf::none ? nullptr : p.bias + stored * p.biasMatrixStride;
		const BiasSums biasSums = biasSumsOf(p, p.reference ? nullptr : bias);
		double error = 0, value = 0, finite = 0;
		for (int side = 0; side < 2; ++side) {
			double errors = 0, values = 0, largest = 0, used = 0, left = 0, overflows = 0;
			for (int64_t line = threadIdx.x; line < keptBy(p, rowsOfD + side).size; line += blockSize) {
				const LineAudit of = auditLine(p, side, matrix, line, bias, biasSums, alpha, beta);
				if (of.value < infinity && of.error < infinity) {
					errors += of.error, values += of.value, used += 1;
					const double relative = of.value > 0 ? of.error / of.value : 0;
					largest = relative > largest ? relative : largest;
				} else {
					left += 1;
					overflows += of.value < infinity && of.isRepresentable;
				}
			}
			error += blockAdded(errors), value += blockAdded(values), finite += blockAdded(used);
			largest = blockLargest(largest);
			worstLine[side] = largest > worstLine[side] ? largest : worstLine[side];
			flags |= blockAdded(left) > 0 ? auditPartial : 0;
			flags |= blockAdded(overflows) > 0 ? auditOverflow : 0;
		}
		if (finite == 0)
			continue;
		isMeasured = true;
		const double relative = error == 0 ? 0 : error / value; // Inf if the product is 0
		worst = relative > worst ? relative : worst;
	}
	if (threadIdx.x != 0)
		return;
	if (!isMeasured)
		flags |= auditUnmeasured;
	const auto rooted = [&](double square) { return isMeasured ? static_cast<float>(sqrt(square)) : NAN; };
	reportAudit(p, {rooted(worst), rooted(worstLine[0]), rooted(worstLine[1]), flags});
}

// Decides in `before` whether a captured call is audited now; the first thread of each block decides for its block.
static __device__ inline bool isAuditDue(const AuditCall &p)
{
	if (p.period == 0)
		return true;
	const uint32_t count = *static_cast<const volatile uint32_t *>(&siteOf(p).replays);
	p.state->counts[blockIdx.x] = count;
	return count % p.period == 0;
}

// True in `after` if all blocks of `before` have made their sums. The count of the site stays if they disagree, which
// calls on several streams can cause: the next call is then audited instead. Called by all threads of a block.
static __device__ inline bool wasAuditDue(const AuditCall &p, bool &isMixed)
{
	if (p.period == 0)
		return true;
	const uint32_t first = p.state->counts[0];
	if (threadIdx.x == 0)
		isMixed = false;
	__syncthreads();
	for (uint32_t block = threadIdx.x; block < p.beforeBlocks; block += blockSize)
		if (p.state->counts[block] != first)
			isMixed = true;
	__syncthreads();
	if (blockIdx.x == 0 && threadIdx.x == 0 && !isMixed)
		atomicAdd(&siteOf(p).replays, 1u);
	return !isMixed && first % p.period == 0;
}

} // namespace autoamp::kernels

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 2)
    autoamp_audit_before(const __grid_constant__ autoamp::kernels::AuditCall p)
{
	using namespace autoamp::kernels;
	__shared__ AuditTile tile;
	__shared__ bool isDue;
	if (threadIdx.x == 0)
		isDue = isAuditDue(p);
	__syncthreads();
	if (!isDue)
		return;
	if (blockIdx.x == 0 && threadIdx.x == 0)
		p.state->finished = 0;
	auditShare(p, 0, passesBefore, tile);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 2)
    autoamp_audit_after(const __grid_constant__ autoamp::kernels::AuditCall p)
{
	using namespace autoamp::kernels;
	__shared__ AuditTile tile;
	__shared__ bool isMixed, isLast;
	if (!wasAuditDue(p, isMixed))
		return;
	auditShare(p, passesBefore, auditPasses, tile);
	if (threadIdx.x == 0) {
		__threadfence_system(); // publishes the sums of this block, and drops values that were read before
		isLast = atomicAdd(&p.state->finished, 1u) == gridDim.x - 1;
		__threadfence_system();
	}
	__syncthreads();
	if (isLast)
		compareAndReport(p);
}
