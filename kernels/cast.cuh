// The conversion kernels (see cast.h): device code for nvcc, and host C++ after tools/emulated/simt.h. The code uses
// only features of both: no inline PTX, no cooperative groups, warps of 32.
#pragma once

#include "kernels/cast.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>

namespace autoamp::kernels {

// Registers cannot be indexed, so the GPU compiler must unroll these loops. A CPU compiler should keep and vectorize
// them.
#ifdef __CUDACC__
#define AUTOAMP_UNROLL _Pragma("unroll")
#else
#define AUTOAMP_UNROLL _Pragma("GCC unroll 1")
#endif

constexpr int vectorSize = 8; // elements that a thread takes at once: reads 32 bytes, writes 16
constexpr uint32_t lanes = 32;
constexpr uint32_t nonfiniteFlag = ~magnitudeMask; // shares one word with the finite maximum

static_assert(operands * lanes <= blockSize && blockSize % lanes == 0);

// Iterates over this thread's share of an operand: vectors of 8 elements down the columns, then across columns and
// matrices. A thread takes one vector per step of the whole grid. Only the constructor divides. 64-bit indices, for
// matrices of more than 2^31 elements.
class Walk
{
public:
	__device__ Walk(const Operand &operand, int64_t thread, int64_t threads) : operand_(operand)
	{
		vectors_ = (operand.rows + vectorSize - 1) / vectorSize;
		if (vectors_ == 0 || operand.columns == 0)
			return;
		split(thread, vector_, column_, matrix_);
		split(threads, vectorStep_, columnStep_, matrixStep_);
		batch_ = operand.batch;
		enter();
	}
	__device__ bool valid() const { return matrix_ < batch_; }
	__device__ void advance()
	{
		const int64_t before = matrix_;
		vector_ += vectorStep_;
		column_ += columnStep_;
		matrix_ += matrixStep_;
		if (vector_ >= vectors_) {
			vector_ -= vectors_;
			++column_;
		}
		if (column_ >= operand_.columns) {
			column_ -= operand_.columns;
			++matrix_;
		}
		if (matrix_ != before)
			enter();
	}
	__device__ uint4 *target() const
	{
		return reinterpret_cast<uint4 *>(operand_.target + matrix_ * operand_.targetStride +
		                                 column_ * operand_.targetLd + vector_ * vectorSize);
	}
	// Memory past the last row may contain NaN or be unmapped: it is not read. Zeros replace it; they change no maximum
	// and are written only to padding.
	__device__ void load(float (&x)[vectorSize]) const
	{
		const float *source = source_ + column_ * operand_.sourceLd + vector_ * vectorSize;
		const int64_t left = operand_.rows - vector_ * vectorSize;
		if (left < vectorSize) {
			for (int i = 0; i < vectorSize; ++i)
				x[i] = i < left ? source[i] : 0.0f;
		} else if (wide_) {
			// Evict first: the source is read only once, and the product should find the copy in the cache.
			const float4 *const wide = reinterpret_cast<const float4 *>(source);
			const float4 low = __ldcs(wide), high = __ldcs(wide + 1);
			memcpy(x, &low, sizeof low); // one copy: four small stores would stall a CPU's next wide load
			memcpy(x + 4, &high, sizeof high);
		} else {
			for (int i = 0; i < vectorSize; ++i)
				x[i] = source[i];
		}
	}

private:
	// Enters a matrix of the batch. 16-byte loads need columns that are aligned to 16 bytes; cuBLAS only requires 4.
	__device__ void enter()
	{
		if (matrix_ >= batch_)
			return;
		source_ = operand_.isArray ? reinterpret_cast<const float *const *>(operand_.source)[matrix_]
		                           : operand_.source + matrix_ * operand_.sourceStride;
		wide_ = ((reinterpret_cast<uintptr_t>(source_) & 15) | (operand_.sourceLd & 3)) == 0;
	}
	__device__ void split(int64_t index, int64_t &vector, int64_t &column, int64_t &matrix) const
	{
		const int64_t columns = index / vectors_;
		vector = index - columns * vectors_;
		matrix = columns / operand_.columns;
		column = columns - matrix * operand_.columns;
	}

	const Operand &operand_;
	int64_t vectors_;
	int64_t vector_ = 0, column_ = 0, matrix_ = 0, batch_ = 0;
	int64_t vectorStep_ = 0, columnStep_ = 0, matrixStep_ = 0;
	const float *source_ = nullptr;
	bool wide_ = false;
};

// Bits of |x| if the nearest bfloat16 of this finite x is Inf, else 0.
__device__ inline int32_t clampedMagnitude(float x)
{
	constexpr uint32_t first = 0x7f7f8000; // halfway between the largest finite bfloat16 and 2^128
	const uint32_t magnitude = bitsOf(x) & magnitudeMask;
	return magnitude - first < infinityBits - first ? static_cast<int32_t>(magnitude) : 0;
}

// The nearest bfloat16, ties to even, except that a finite x stays finite: a mask of -FLT_MAX times 0 must not be NaN.
__device__ inline uint16_t bfloat16Of(float x)
{
	const uint16_t nearest = __bfloat16_as_ushort(__float2bfloat16_rn(x));
	return static_cast<uint16_t>(nearest - (clampedMagnitude(x) != 0));
}

// Conversions of eight elements. Plain loops, so that each compiler can optimize them for its machine.
struct ToBfloat16 {
	int32_t clamped = 0; // bits of the largest |x| that was clamped
	__device__ void operator()(const float (&x)[vectorSize], uint16_t (&y)[vectorSize])
	{
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i)
			y[i] = bfloat16Of(x[i]);
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i)
			clamped = max(clamped, clampedMagnitude(x[i]));
	}
};

__device__ inline int32_t finiteMagnitude(float x)
{
	const int32_t magnitude = bitsOf(x) & magnitudeMask;
	return magnitude < static_cast<int32_t>(infinityBits) ? magnitude : 0;
}

struct ToHalf {
	float scale;
	int32_t amax = 0,
	        largest = 0; // bits of the largest finite |x|; maximum of all |x|, Inf and NaN included
	__device__ void operator()(const float (&x)[vectorSize], uint16_t (&y)[vectorSize])
	{
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i) {
			amax = max(amax, finiteMagnitude(x[i])); // of x and not of the half, because a stale scale overflows
			largest = max(largest, static_cast<int32_t>(bitsOf(x[i]) & magnitudeMask));
		}
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i)
			y[i] = __half_as_ushort(__float2half_rn(x[i] * scale));
	}
};

template <class Convert>
__device__ inline void store(const float (&x)[vectorSize], uint4 *target, Convert &convert)
{
	uint16_t y[vectorSize];
	convert(x, y);
	uint4 words;
	memcpy(&words, y, sizeof words);
	__stwb(target, words); // explicit: nvcc would split an assignment into four stores of 4 bytes
}

// Casts this thread's share of one operand, two vectors per iteration, so that both loads are in flight at once.
template <class Convert>
__device__ inline void castShare(const Operand &operand, uint32_t block, Convert &convert)
{
	const int64_t threads = static_cast<int64_t>(gridDim.x) * blockSize;
	for (Walk walk(operand, static_cast<int64_t>(block) * blockSize + threadIdx.x, threads); walk.valid();) {
		float first[vectorSize], second[vectorSize];
		uint4 *const target = walk.target();
		walk.load(first);
		walk.advance();
		if (walk.valid()) {
			uint4 *const next = walk.target();
			walk.load(second);
			walk.advance();
			store(first, target, convert);
			store(second, next, convert);
		} else {
			store(first, target, convert);
		}
	}
}

// ---- tensors

// Shared memory for a change of layout. The number of rows determines that of columns. Each row has one extra word, so
// that a warp has no bank conflicts in either direction.
struct Tile {
	float x[tileElements + mostTileRows];
	int64_t offset[tileElements / 8]; // of each column
};

class TileShape
{
public:
	__device__ explicit TileShape(int64_t rows)
	{
		while (1 << log_ < tileRows(rows))
			++log_;
	}
	__device__ int rows() const { return 1 << log_; }
	__device__ int columns() const { return tileElements >> log_; }
	__device__ int place(int row, int column) const { return row * (columns() + 1) + column; }
	// Returns the element with index `i` if indices run down the columns (isDown) or along the rows.
	__device__ void split(int i, bool isDown, int &row, int &column) const
	{
		row = isDown ? i & (rows() - 1) : i / columns();
		column = isDown ? i >> log_ : i & (columns() - 1);
	}

private:
	int log_ = 3;
};

__device__ inline int64_t offsetOf(const TensorLayout &layout, int64_t column)
{
	int64_t offset = 0;
	int level = 0;
	for (; level + 1 < layout.levels; ++level) {
		const int64_t next = column / layout.extent[level];
		offset += (column - next * layout.extent[level]) * layout.stride[level];
		column = next;
	}
	return offset + column * layout.stride[level];
}

// True if elements of one column are adjacent in memory.
__device__ inline bool isDown(const TensorLayout &layout)
{
	return layout.rowStride == 1;
}

// Templates from here on are static: a test compiles them once more without barriers.

// Casts this block's share of a tensor. Reads and writes whole cache lines in both orientations.
template <class Convert>
static __device__ inline void castShare(const Tensor &tensor, uint32_t block, Convert &convert, Tile &tile)
{
	const TensorLayout &layout = tensor.layout;
	const TileShape shape(layout.rows);
	const int64_t filled = layout.columns(), columns = filled + tensor.zeroColumns;
	const int64_t tiles = tileCount(layout.rows, columns), across = tileCount(layout.rows, 1);
	const bool isWide = tensor.targetLd % vectorSize == 0;
	for (int64_t index = block; index < tiles; index += gridDim.x) {
		const int64_t firstColumn = index / across * shape.columns(), firstRow = index % across * shape.rows();
		const int mine = static_cast<int>(threadIdx.x);
		if (mine < shape.columns() && firstColumn + mine < filled)
			tile.offset[mine] = offsetOf(layout, firstColumn + mine);
		__syncthreads();
		float x[vectorSize];
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i) {
			int row, column;
			shape.split(i * blockSize + mine, isDown(layout), row, column);
			const bool isThere = firstRow + row < layout.rows && firstColumn + column < filled;
			x[i] = isThere ? __ldcs(tensor.source + tile.offset[column] + (firstRow + row) * layout.rowStride) : 0.0f;
		}
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i) {
			int row, column;
			shape.split(i * blockSize + mine, isDown(layout), row, column);
			tile.x[shape.place(row, column)] = x[i];
		}
		__syncthreads();
		int row, column;
		shape.split(mine * vectorSize, true, row, column);
		const int64_t left = layout.rows - firstRow - row;
		if (left > 0 && firstColumn + column < columns) {
			AUTOAMP_UNROLL
			for (int i = 0; i < vectorSize; ++i)
				x[i] = tile.x[shape.place(row + i, column)];
			uint16_t *const target = tensor.target + (firstColumn + column) * tensor.targetLd + firstRow + row;
			if (isWide) {
				store(x, reinterpret_cast<uint4 *>(target), convert);
			} else {
				uint16_t y[vectorSize];
				convert(x, y);
				for (int i = 0; i < vectorSize && i < left; ++i)
					target[i] = y[i];
			}
		}
		__syncthreads();
	}
}

// The grid walks B from its other end: the blocks that have one vector more of A have one less of B.
__device__ inline uint32_t blockFor(int operand)
{
	return operand == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
}

template <class Convert>
static __device__ inline void castOperand(const Parameters &p, int operand, Convert &convert, Tile *)
{
	castShare(p.operand[operand], blockFor(operand), convert);
}

template <class Convert>
static __device__ inline void castOperand(const TensorParameters &p, int operand, Convert &convert, Tile *tile)
{
	castShare(p.tensor[operand], blockFor(operand), convert, *tile);
}

__device__ inline uint32_t totalOf(const Events &p, EventKind kind)
{
	const volatile uint32_t *totals = p.ring && p.site < siteCount ? p.ring->totals[p.site][0] : nullptr;
	return totals ? totals[static_cast<uint32_t>(kind)] : 1;
}

// Counts an event, and records it. The totals are always exact. `sequence` is reset first: otherwise a reader of a ring
// that wrapped could mix the fields of two records.
__device__ inline void report(const Events &p, EventKind kind, uint32_t operand, int before, int after, uint32_t amax,
                              const Loss &loss = {})
{
	if (!p.ring)
		return;
	const bool known = p.site < siteCount;
	atomicAdd(&p.ring->totals[known ? p.site : 0][operand][static_cast<uint32_t>(kind)], 1u);
	if (!known)
		return;
	const unsigned long long index = atomicAdd(reinterpret_cast<unsigned long long *>(&p.ring->written), 1ull);
	Event &event = p.ring->events[index % ringSize];
	volatile uint64_t &sequence = event.sequence;
	sequence = 0;
	__threadfence_system();
	event.site = p.site;
	event.kind = kind;
	event.operand = operand;
	event.before = before;
	event.after = after;
	event.amax = amax;
	event.loss = loss;
	__threadfence_system();
	sequence = index + 1;
}

// Called by a thread that may have clamped an element of this operand (else magnitude is 0). One thread per call
// reports.
__device__ inline void reportClamped(const Events &p, uint32_t operand, int32_t magnitude)
{
	if (magnitude == 0 || !p.sites)
		return;
	unsigned long long &last = p.sites[p.site < siteCount ? p.site : 0].clampedBy[operand];
	// A plain read first spares most threads the atomic; a stale value is only too small.
	if (last < p.call && atomicMax(&last, static_cast<unsigned long long>(p.call)) < p.call)
		report(p, EventKind::clamped, operand, INT32_MIN, 0, static_cast<uint32_t>(magnitude));
}

// All records of a cast, in shared memory.
struct Findings {
	uint32_t amax[operands], nonfinite[operands];
	int32_t lowest[operands], highest[operands]; // exponents that the blocks used
	uint32_t call, flags;                        // those of the first block
	uint32_t wasChecked;                         // 1: by some block
	uint32_t isMixed;                            // 1: the blocks differ in their call or flags

	__device__ bool isUniform(int operand) const { return lowest[operand] == highest[operand]; }
	__device__ bool isChecked() const { return wasChecked && !isMixed && isUniform(0) && isUniform(1); }
};

// Called by all threads of a block. The plain reads before the atomics spare most of them.
static __device__ inline void gather(const Scaling &p, Findings &found)
{
	const CastRecord first = p.records[0];
	if (threadIdx.x == 0) {
		found = {};
		for (int i = 0; i < operands; ++i)
			found.lowest[i] = found.highest[i] = first.used[i];
		found.call = first.call, found.flags = first.flags;
	}
	__syncthreads();
	for (uint32_t block = threadIdx.x; block < p.castBlocks; block += blockSize) {
		const CastRecord record = p.records[block];
		AUTOAMP_UNROLL
		for (int i = 0; i < operands; ++i) {
			const uint32_t amax = record.maximum[i] & magnitudeMask;
			if (amax > found.amax[i])
				atomicMax(&found.amax[i], amax);
			if (record.maximum[i] & nonfiniteFlag)
				found.nonfinite[i] = 1;
			if (record.used[i] != first.used[i]) {
				atomicMin(&found.lowest[i], record.used[i]);
				atomicMax(&found.highest[i], record.used[i]);
			}
		}
		if (record.flags & flagChecked)
			found.wasChecked = 1;
		if (record.call != first.call || record.flags != first.flags)
			found.isMixed = 1;
	}
	__syncthreads();
}

} // namespace autoamp::kernels

#include "kernels/loss.cuh"

namespace autoamp::kernels {

// Returns the slot of this key. Without one, returns null; with isNew, returns a free slot or the one to replace.
__device__ inline Prediction *slotOf(Prediction *predictions, uint64_t key, bool isNew)
{
	Prediction *const bucket = predictions + bucketOf(key);
	uint64_t keys[predictionsPerBucket];
	for (uint32_t i = 0; i < predictionsPerBucket; ++i)
		keys[i] = bucket[i].key; // independent loads
	for (uint32_t i = 0; i < predictionsPerBucket; ++i)
		if (keys[i] == key)
			return bucket + i;
	for (uint32_t i = 0; i < predictionsPerBucket && isNew; ++i)
		if (keys[i] == 0)
			return bucket + i;
	return isNew ? bucket + (key >> 32) % predictionsPerBucket : nullptr;
}

// Choices of a block of the cast. A settle on another stream may be writing the slot. Blocks may then find different
// predictions, or a torn one: such a prediction is only a wrong one, and costs a recast.
__device__ inline CastRecord predicted(const Scaling &p)
{
	CastRecord record = {};
	if (!p.predictions)
		return record;
	for (const uint64_t key : {p.pairKey, p.signatureKey}) {
		const Prediction *const slot = slotOf(p.predictions, key, false);
		if (!slot)
			continue;
		for (int i = 0; i < operands; ++i)
			record.used[i] = slot->exponent[i];
		record.flags = flagPredicted;
		break;
	}
	return record;
}

// Last step of settle, on one thread: writes the scalars of the product, the predictions and the events.
__device__ inline void conclude(const Scaling &p, Scratch &scratch, const Findings &found, const Scales &scales,
                                const bool (&isRecast)[operands])
{
	const bool isScaling = p.predictions != nullptr;
	scratch.alpha = scales.alpha;
	scratch.beta = p.beta ? *p.beta : p.betaValue;
	const bool isFirst = p.first == First::yes || (p.first == First::askTotals && totalOf(p, EventKind::init) == 0);
	Prediction prediction = {};
	AUTOAMP_UNROLL
	for (int i = 0; i < operands; ++i) {
		const int right = scales.exponent[i], used = found.lowest[i] != right ? found.lowest[i] : found.highest[i];
		const uint32_t amax = found.amax[i];
		scratch.used[i] = used, scratch.amax[i] = amax, scratch.nonfinite[i] = found.nonfinite[i];
		scratch.right[i] = prediction.exponent[i] = right;
		if (isScaling && isFirst)
			report(p, EventKind::init, i, INT32_MIN, right, amax);
		else if (isRecast[i])
			report(p, EventKind::rescale, i, used, right, amax);
		// Rounding is monotonic: some finite x became Inf exactly if the largest did.
		const uint32_t half = __half_as_ushort(__float2half_rn(floatOf(amax) * powerOfTwo(used)));
		scratch.overflow[i] = half == 0x7c00;
		if (!isScaling && scratch.overflow[i])
			report(p, EventKind::overflow, i, used, right, amax);
		if (found.nonfinite[i])
			report(p, EventKind::nonfinite_input, i, used, right, amax);
	}
	if (scales.excess > 0) // the exponent that alpha would need, and the one that it has
		report(p, EventKind::scale_range, 0, maxExponent + scales.excess, maxExponent, found.amax[0]);
	if (!isScaling)
		return;
	// Plain stores. If a cast reads a slot that is half written, or written for two keys, its prediction is wrong and
	// costs a recast.
	for (const uint64_t key : {p.pairKey, p.signatureKey}) {
		prediction.key = key;
		*slotOf(p.predictions, key, true) = prediction;
	}
}

// The loss check in the cast and in settle. A convolution has none.
__device__ inline void beginCheck(const Parameters &p, CastRecord &record)
{
	if (!p.sums || !p.sites)
		return;
	const SiteState &site = siteOf(p);
	record.call = site.calls;
	record.flags |= isRegular(record.call) ? flagChecked | flagRegular : site.isCheckedAgain ? flagChecked : 0;
}
__device__ inline void checkCast(const Parameters &p, const CastRecord &record, int operand)
{
	if (record.flags & flagChecked)
		probeCast(p, record, operand, blockFor(operand));
}
__device__ inline void beginCheck(const TensorParameters &, CastRecord &) {}
__device__ inline void checkCast(const TensorParameters &, const CastRecord &, int) {}
__device__ inline void countCall(const TensorParameters &, const Findings &) {}

// Casts both operands to half in one launch, for matrices or tensors.
template <class Call>
static __device__ inline void castToHalf(const Call &p, uint32_t (&maxima)[operands][blockSize], CastRecord &record,
                                         Tile *tile)
{
	if (threadIdx.x == 0) {
		record = predicted(p);
		beginCheck(p, record);
	}
	__syncthreads();
	AUTOAMP_UNROLL
	for (int i = 0; i < operands; ++i) {
		ToHalf convert{powerOfTwo(record.used[i])};
		castOperand(p, i, convert, tile);
		maxima[i][threadIdx.x] =
		    convert.amax | (convert.largest >= static_cast<int32_t>(infinityBits) ? nonfiniteFlag : 0);
		checkCast(p, record, i);
	}
	__syncthreads();
	// One warp per operand.
	const uint32_t operand = threadIdx.x / lanes, lane = threadIdx.x % lanes;
	if (operand >= operands)
		return;
	uint32_t flag = 0, amax = 0;
	for (uint32_t i = lane; i < blockSize; i += lanes) {
		const uint32_t word = maxima[operand][i];
		flag |= word & nonfiniteFlag;
		amax = max(amax, word & magnitudeMask);
	}
	for (uint32_t step = lanes / 2; step > 0; step /= 2) {
		const uint32_t other = __shfl_xor_sync(0xffffffffu, amax | flag, step);
		flag |= other & nonfiniteFlag;
		amax = max(amax, other & magnitudeMask);
	}
	if (lane != 0)
		return;
	CastRecord &mine = p.records[blockIdx.x];
	mine.maximum[operand] = amax | flag;
	mine.used[operand] = record.used[operand];
	if (operand == 0)
		mine.call = record.call, mine.flags = record.flags;
}

template <class Call>
static __device__ inline void castToBfloat16(const Call &p, Tile *tile)
{
	AUTOAMP_UNROLL
	for (int i = 0; i < operands; ++i) {
		ToBfloat16 convert;
		castOperand(p, i, convert, tile);
		reportClamped(p, i, convert.clamped);
	}
}

// Every block computes the same scales from values that settle does not write (the records, alpha). No block reads the
// values that conclude() writes. Usually nothing is recast, and the block returns at once.
template <class Call>
static __device__ inline void settle(const Call &p, Findings &found, Tile *tile)
{
	gather(p, found);
	const float alpha = p.alpha ? *p.alpha : p.alphaValue;
	Scales scales = {{0, 0}, alpha, 0};
	if (p.predictions)
		scales = scalesFor(found.amax[0], found.amax[1], alpha);
	bool isRecast[operands];
	AUTOAMP_UNROLL
	for (int i = 0; i < operands; ++i) {
		const bool isScaled = found.amax[i] != 0; // zeros, Infs and NaNs are right at any scale
		if (!isScaled)
			scales.exponent[i] = found.lowest[i];
		const int right = scales.exponent[i];
		isRecast[i] = isScaled && (found.lowest[i] != right || found.highest[i] != right);
		if (isRecast[i]) {
			ToHalf convert{powerOfTwo(scales.exponent[i])};
			castOperand(p, i, convert, tile);
		}
	}
	if (blockIdx.x == 0 && threadIdx.x == 0) {
		conclude(p, *p.scratch, found, scales, isRecast);
		countCall(p, found);
	}
}

} // namespace autoamp::kernels

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 4)
    autoamp_cast_half(const __grid_constant__ autoamp::kernels::Parameters p)
{
	using namespace autoamp::kernels;
	__shared__ uint32_t maxima[operands][blockSize];
	__shared__ CastRecord record;
	castToHalf(p, maxima, record, nullptr);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 4)
    autoamp_cast_bfloat16(const __grid_constant__ autoamp::kernels::Parameters p)
{
	if (p.scratch && blockIdx.x == 0 && threadIdx.x == 0)
		p.scratch->beta = p.betaValue;
	autoamp::kernels::castToBfloat16(p, nullptr);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 4)
    autoamp_settle(const __grid_constant__ autoamp::kernels::Parameters p)
{
	using namespace autoamp::kernels;
	__shared__ Findings found;
	settle(p, found, nullptr);
	if (found.isChecked())
		probeSettle(p, found);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 4)
    autoamp_cast_tensor_half(const __grid_constant__ autoamp::kernels::TensorParameters p)
{
	using namespace autoamp::kernels;
	__shared__ uint32_t maxima[operands][blockSize];
	__shared__ CastRecord record;
	__shared__ Tile tile;
	castToHalf(p, maxima, record, &tile);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 4)
    autoamp_cast_tensor_bfloat16(const __grid_constant__ autoamp::kernels::TensorParameters p)
{
	using namespace autoamp::kernels;
	__shared__ Tile tile;
	if (blockIdx.x == 0 && threadIdx.x == 0)
		p.scratch->alpha = p.alphaValue;
	castToBfloat16(p, &tile);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 4)
    autoamp_settle_tensor(const __grid_constant__ autoamp::kernels::TensorParameters p)
{
	using namespace autoamp::kernels;
	__shared__ Findings found;
	__shared__ Tile tile;
	settle(p, found, &tile);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize)
    autoamp_place(const __grid_constant__ autoamp::kernels::Placement p)
{
	using namespace autoamp::kernels;
	__shared__ Tile tile;
	const TensorLayout &layout = p.layout;
	const TileShape shape(layout.rows);
	const int64_t columns = layout.columns();
	const int64_t tiles = tileCount(layout.rows, columns), across = tileCount(layout.rows, 1);
	const int mine = static_cast<int>(threadIdx.x);
	for (int64_t index = blockIdx.x; index < tiles; index += gridDim.x) {
		const int64_t firstColumn = index / across * shape.columns(), firstRow = index % across * shape.rows();
		if (mine < shape.columns() && firstColumn + mine < columns)
			tile.offset[mine] = offsetOf(layout, firstColumn + mine);
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i) {
			int row, column;
			shape.split(i * blockSize + mine, true, row, column);
			if (firstRow + row >= layout.rows || firstColumn + column >= columns)
				continue;
			const int64_t at = (firstColumn + column) * p.resultLd + firstRow + row;
			tile.x[shape.place(row, column)] =
			    p.isBfloat16
			        ? floatOf(static_cast<uint32_t>(static_cast<const uint16_t *>(p.result)[at]) << 16) * p.scale
			        : static_cast<const float *>(p.result)[at];
		}
		__syncthreads();
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i) {
			int row, column;
			shape.split(i * blockSize + mine, isDown(layout), row, column);
			if (firstRow + row >= layout.rows || firstColumn + column >= columns)
				continue;
			float value = tile.x[shape.place(row, column)];
			const int64_t at = tile.offset[column] + (firstRow + row) * layout.rowStride;
			if (p.added)
				value = fmaf(p.factor, p.added[at], value);
			if (p.bias)
				value += p.bias[firstRow + row];
			if (p.activation != Activation::none && !(value > 0) &&
			    !(p.activation == Activation::reluOfNan && value != value))
				value = 0;
			p.target[at] = value;
		}
		__syncthreads();
	}
}

// A column is handled by the smallest power of two of threads that covers it, from a warp to a block. Small matrices
// leave few threads idle, and large ones are read and written in whole cache lines.
extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize)
    autoamp_scatter(const __grid_constant__ autoamp::kernels::Scatter s)
{
	using namespace autoamp::kernels;
	const float beta = s.beta ? *s.beta : s.betaValue;
	uint32_t width = lanes;
	while (width < blockSize && width < s.rows)
		width *= 2;
	const int64_t abreast = blockSize / width, columns = s.columns * s.batch;
	for (int64_t index = blockIdx.x * abreast + threadIdx.x / width; index < columns; index += gridDim.x * abreast) {
		const int64_t matrix = index / s.columns, column = index - matrix * s.columns;
		const float *const product = s.product + matrix * s.productStride + column * s.productLd;
		const float *const source = beta == 0 ? nullptr : s.sources[matrix] + column * s.sourceLd;
		float *const target = s.targets[matrix] + column * s.targetLd;
		for (int64_t row = threadIdx.x % width; row < s.rows; row += width)
			target[row] = beta == 0 ? product[row] : fmaf(beta, source[row], product[row]);
	}
}

// Warps read whole cache lines in both orientations: 32 adjacent elements of one output, or one element each of 32
// outputs.
extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize)
    autoamp_sum(const __grid_constant__ autoamp::kernels::Sum s)
{
	using namespace autoamp::kernels;
	constexpr uint32_t warps = blockSize / lanes;
	__shared__ float parts[warps][lanes + 1];
	const uint32_t warp = threadIdx.x / lanes, lane = threadIdx.x % lanes;
	const uint32_t abreast = s.isAlongRows ? warps : lanes, apart = s.isAlongRows ? lanes : warps;
	const int64_t step = s.isAlongRows ? 1 : s.sourceLd, across = s.isAlongRows ? s.sourceLd : 1;
	const int64_t groups = (s.outputs + abreast - 1) / abreast;
	for (int64_t index = blockIdx.x; index < groups * s.batch; index += gridDim.x) {
		const int64_t matrix = index / groups, first = (index - matrix * groups) * abreast;
		const int64_t output = first + (s.isAlongRows ? warp : lane);
		const float *const source = s.source + matrix * s.sourceStride + output * across;
		float sum = 0;
		for (int64_t l = s.isAlongRows ? lane : warp; output < s.outputs && l < s.depth; l += apart)
			sum += source[l * step];
		parts[warp][lane] = sum;
		__syncthreads();
		if (threadIdx.x < abreast && first + threadIdx.x < s.outputs) {
			sum = 0;
			for (uint32_t i = 0; i < apart; ++i)
				sum += s.isAlongRows ? parts[threadIdx.x][i] : parts[i][threadIdx.x];
			s.target[matrix * s.targetStride + first + threadIdx.x] = sum;
		}
		__syncthreads();
	}
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize)
    autoamp_widen(const __grid_constant__ autoamp::kernels::Scalars s)
{
	if (blockIdx.x == 0 && threadIdx.x < 2)
		s.widened[threadIdx.x] = autoamp::kernels::floatOfHalf(*(threadIdx.x == 0 ? s.alpha : s.beta));
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize)
    autoamp_runs(const __grid_constant__ autoamp::kernels::Runs r)
{
	using namespace autoamp::kernels;
	const int64_t first = int64_t{blockIdx.x} * blockSize + threadIdx.x, step = int64_t{gridDim.x} * blockSize;
	for (int32_t i = 0; i < r.count; ++i) {
		const auto &run = r.run[i];
		int32_t clamped = 0;
		for (int64_t at = first; at < run.count; at += step) {
			if (r.isWidening) {
				float *const target = static_cast<float *>(run.target);
				const float value = floatOf(static_cast<uint32_t>(static_cast<const uint16_t *>(run.source)[at]) << 16);
				target[at] = r.isAdded ? target[at] + value : value;
			} else {
				const float x = run.source ? static_cast<const float *>(run.source)[at] : 0.0f;
				static_cast<uint16_t *>(run.target)[at] = bfloat16Of(x);
				clamped = max(clamped, clampedMagnitude(x));
			}
		}
		reportClamped(r, i >= r.weights, clamped);
	}
}
