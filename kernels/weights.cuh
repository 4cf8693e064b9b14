// Conversions of operands that are kept or observed (weights.h, docs/adr/0061). Device code and host C++, included by
// cast.cuh. The cast compares a sample of a kept operand with its copy; settle converts it again if it differs. The
// state of a copy is written by one thread, after all blocks that read it have ended.
#pragma once

namespace autoamp::kernels {

// Converts like Convert, and computes a fingerprint of the values and their positions. The sum over all vectors does
// not depend on the order.
template <class Convert>
struct Observed {
	Convert &convert;
	int64_t position = 0;
	uint64_t sum = 0;
	__device__ void operator()(const float (&x)[vectorSize], uint16_t (&y)[vectorSize])
	{
		convert(x, y);
		uint64_t hash = static_cast<uint64_t>(position) * 0x9e3779b97f4a7c15u;
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i) {
			hash = (hash ^ bitsOf(x[i])) * 0xbf58476d1ce4e5b9u;
			hash ^= hash >> 29;
		}
		sum += hash;
	}
};
template <class Convert>
__device__ inline void moveTo(Observed<Convert> &observed, int64_t position)
{
	observed.position = position;
}

__device__ inline bool hasContent(const Kept &kept)
{
	return isCopy(kept) && kept.state->generation == kept.generation && !kept.state->isStale;
}

// Called by one thread of each block before a cast: a copy with a content has its exponent already.
template <class Call>
static __device__ inline void beginKept(const Call &p, KeptRecord &found, CastRecord &record)
{
	found = {};
	for (int i = 0; i < operands; ++i)
		if (hasContent(p.kept[i]))
			record.used[i] = p.kept[i].state->exponent;
	if (blockIdx.x == 0)
		p.scratch->recast = {};
}

// Finite magnitudes that the operand did not have when the copy was made. At the exponent of the copy they can round to
// the same half: zeros have an arbitrary exponent, and large values become Inf.
__device__ inline bool isNewMagnitude(const ToHalf &, const WeightState &state, float x)
{
	return static_cast<uint32_t>(finiteMagnitude(x)) > (state.maximum & magnitudeMask);
}
__device__ inline bool isNewMagnitude(const ToBfloat16 &, const WeightState &, float)
{
	return false;
}

// Compares lines of an operand with its copy, a warp for each column.
template <class Convert, class SourceOf>
static __device__ inline bool differs(const Kept &kept, int64_t rows, int64_t columns, int64_t rowStride,
                                      const uint16_t *copy, int64_t copyLd, const Convert &convert, SourceOf sourceOf)
{
	const uint32_t call = kept.state->calls, lane = threadIdx.x % lanes;
	const int64_t warps = int64_t{gridDim.x} * (blockSize / lanes), lines = (rows + lineElements - 1) / lineElements;
	bool isDifferent = false;
	for (int64_t column = (int64_t{blockIdx.x} * blockSize + threadIdx.x) / lanes; column < columns; column += warps)
		for (int64_t line = firstLine(column, call, kept.share); line < lines; line += kept.share)
			if (const int64_t row = line * lineElements + lane; row < rows) {
				const float x = __ldcs(sourceOf(column) + row * rowStride);
				isDifferent |= convert.one(x) != copy[column * copyLd + row] || isNewMagnitude(convert, *kept.state, x);
			}
	return isDifferent;
}

template <class Convert>
static __device__ inline bool differs(const Parameters &p, int operand, const Convert &convert)
{
	const Operand &it = p.operand[operand];
	return differs(p.kept[operand], it.rows, it.columns, 1, it.target, it.targetLd, convert,
	               [&it](int64_t column) { return it.source + column * it.sourceLd; });
}

template <class Convert>
static __device__ inline bool differs(const TensorParameters &p, int operand, const Convert &convert)
{
	const Tensor &it = p.tensor[operand];
	return differs(p.kept[operand], it.layout.rows, it.layout.columns(), it.layout.rowStride, it.target, it.targetLd,
	               convert, [&it](int64_t column) { return it.source + offsetOf(it.layout, column); });
}

__device__ inline uint32_t maximumOf(const ToHalf &convert)
{
	return static_cast<uint32_t>(convert.amax) | (convert.isNonfinite ? nonfiniteFlag : 0);
}
__device__ inline uint32_t maximumOf(const ToBfloat16 &)
{
	return 0;
}

// Compares an operand with its copy, or converts it. Returns its maximum for the record of a cast to half.
template <class Call, class Convert>
static __device__ inline uint32_t castKept(const Call &p, int operand, Convert &convert, KeptRecord &found, Tile *tile)
{
	const Kept &kept = p.kept[operand];
	if (hasContent(kept)) {
		if (differs(p, operand, convert))
			found.differs[operand] = 1;
		return kept.state->maximum;
	}
	if (kept.how != Keeping::observed) {
		castOperand(p, operand, convert, tile);
	} else {
		Observed<Convert> observed{convert};
		castOperand(p, operand, observed, tile);
		const uint64_t sum = warpSum(observed.sum);
		if (threadIdx.x % lanes == 0)
			atomicAdd(reinterpret_cast<unsigned long long *>(&found.fingerprint[operand]),
			          static_cast<unsigned long long>(sum));
	}
	return maximumOf(convert);
}

// Called by one thread when the conversion of the operand is decided. exponent and maximum: those of the copy now.
static __device__ inline void concludeKept(const Scaling &p, int operand, const KeptRecord &found, int exponent,
                                           uint32_t maximum)
{
	const Kept &kept = p.kept[operand];
	if (kept.how == Keeping::none)
		return;
	WeightState &state = *kept.state;
	volatile WeightFacts &facts = *kept.facts;
	const bool isKnown = state.generation == kept.generation;
	if (!isKnown)
		state.calls = state.changes = 0;
	if (kept.how == Keeping::observed) {
		const bool isRepeated = isKnown && state.fingerprint == found.fingerprint[operand];
		state.changes = isRepeated ? min(state.changes + 1, 0xffffu) : 0;
		state.fingerprint = found.fingerprint[operand];
		facts.compared = state.compared += isKnown;
		facts.repeated = state.repeated += isRepeated;
		facts.inARow = tagged(kept.generation, ++state.calls << 16 | state.changes);
	} else {
		const bool hasChanged = isKnown && !state.isStale && found.differs[operand];
		if (hasChanged) {
			report(p, kept.how == Keeping::frozen ? EventKind::changed : EventKind::recast, operand, state.exponent,
			       exponent, maximum & magnitudeMask);
			facts.changes = tagged(kept.generation, ++state.changes);
		}
		state.isStale = hasChanged && kept.how == Keeping::frozen;
		state.exponent = exponent;
		state.maximum = maximum;
		++state.calls;
	}
	state.generation = kept.generation;
}

// Called by all threads of a block of settle: sums up the records of the cast.
template <class Call>
static __device__ inline void gatherKept(const Call &p, KeptRecord &found)
{
	if (threadIdx.x == 0)
		found = {};
	__syncthreads();
	for (uint32_t block = threadIdx.x; block < p.castBlocks; block += blockSize) {
		const KeptRecord record = p.keptRecords[block];
		AUTOAMP_UNROLL
		for (int i = 0; i < operands; ++i) {
			if (record.differs[i])
				found.differs[i] = 1;
			if (p.kept[i].how == Keeping::observed && blockIdx.x == 0) // the block that concludes
				atomicAdd(reinterpret_cast<unsigned long long *>(&found.fingerprint[i]),
				          static_cast<unsigned long long>(record.fingerprint[i]));
		}
	}
	__syncthreads();
}

__device__ inline bool mustRecast(const Scaling &p, const KeptRecord &found, int operand)
{
	return p.kept[operand].how == Keeping::checked && found.differs[operand];
}

template <class Call>
static __device__ inline void correct(const Call &p, const Findings &found, Tile *tile, bool isAlone);
template <class Call>
static __device__ inline void settle(const Call &p, Findings &found, Tile *tile);

// Converts the operands that have changed. Their largest magnitude is known when the last block has ended: it
// concludes, and converts them once more if they need another exponent. Returns true for this block.
template <class Call>
static __device__ inline bool recast(const Call &p, Findings &found, const KeptRecord &kept, Tile *tile)
{
	__shared__ uint32_t isLast;
	Recast &all = p.scratch->recast;
	gather(p, found);
	for (int i = 0; i < operands; ++i) {
		if (!mustRecast(p, kept, i))
			continue;
		ToHalf convert{powerOfTwo(found.lowest[i])};
		castOperand(p, i, convert, tile);
		const auto amax = static_cast<uint32_t>(convert.amax);
		if (amax > readOnce(&all.amax[i], 0u))
			atomicMax(&all.amax[i], amax);
		if (convert.isNonfinite)
			all.nonfinite[i] = 1;
	}
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		isLast = atomicAdd(&all.blocks, 1u) == gridDim.x - 1;
		__threadfence();
		found.isMixed = 1; // the loss check of this call has seen another operand
		for (int i = 0; i < operands && isLast; ++i)
			if (mustRecast(p, kept, i)) {
				found.amax[i] = readOnce(&all.amax[i], 0u);
				found.nonfinite[i] = readOnce(&all.nonfinite[i], 0u);
			}
	}
	__syncthreads();
	if (!isLast)
		return false;
	correct(p, found, tile, true);
	return true;
}

template <class Call>
static __device__ inline void settleKeptHalf(const Call &p, Findings &found, KeptRecord &kept, Tile *tile)
{
	gatherKept(p, kept);
	bool isMine = blockIdx.x == 0;
	if (mustRecast(p, kept, 0) || mustRecast(p, kept, 1))
		isMine = recast(p, found, kept, tile);
	else
		settle(p, found, tile);
	if (isMine && threadIdx.x == 0)
		for (int i = 0; i < operands; ++i)
			concludeKept(p, i, kept, p.scratch->right[i], found.amax[i] | (found.nonfinite[i] ? nonfiniteFlag : 0));
}

template <class Call>
static __device__ inline void castKeptToBfloat16(const Call &p, KeptRecord &found, Tile *tile)
{
	if (threadIdx.x == 0)
		found = {};
	__syncthreads();
	AUTOAMP_UNROLL
	for (int i = 0; i < operands; ++i) {
		ToBfloat16 convert;
		if (p.kept[i].how == Keeping::none)
			castOperand(p, i, convert, tile);
		else
			castKept(p, i, convert, found, tile);
		reportClamped(p, i, convert.clamped);
	}
	__syncthreads();
	if (threadIdx.x != 0)
		return;
	if (p.keptRecords) {
		p.keptRecords[blockIdx.x] = found;
		return;
	}
	// No settle follows: the last block concludes. Only frozen copies are used without settle.
	for (int i = 0; i < operands; ++i) {
		if (p.kept[i].how == Keeping::none)
			continue;
		WeightState &state = *p.kept[i].state;
		if (found.differs[i])
			atomicMax(&state.differs, 1u);
		__threadfence();
		if (atomicAdd(&state.blocks, 1u) != gridDim.x - 1)
			continue;
		__threadfence();
		KeptRecord all = {};
		all.differs[i] = readOnce(&state.differs, 0u);
		state.differs = state.blocks = 0;
		concludeKept(p, i, all, 0, 0);
	}
}

template <class Call>
static __device__ inline void settleKeptBfloat16(const Call &p, KeptRecord &found, Tile *tile)
{
	gatherKept(p, found);
	for (int i = 0; i < operands; ++i) {
		if (mustRecast(p, found, i)) {
			ToBfloat16 convert;
			castOperand(p, i, convert, tile);
			reportClamped(p, i, convert.clamped);
		}
		if (blockIdx.x == 0 && threadIdx.x == 0)
			concludeKept(p, i, found, 0, 0);
	}
}

} // namespace autoamp::kernels
