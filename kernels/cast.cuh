// The conversion kernels (see cast.h): device code for nvcc, and host C++ after tools/emulated/simt.h. The code uses
// only features of both: no inline PTX except in waitForCast(), no cooperative groups, warps of 32.
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
#define AUTOAMP_LOOP _Pragma("unroll 1")
#else
#define AUTOAMP_UNROLL _Pragma("GCC unroll 1")
#define AUTOAMP_LOOP AUTOAMP_UNROLL
#endif

// Waits until the kernel before this one in the stream has ended and its writes are visible. Each thread of a settle
// kernel waits first, because the kernel may start earlier (cuda::launchWaiting).
__device__ inline void waitForCast()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 // firstWaiting
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

constexpr int vectorSize = 8; // elements that a thread takes at once: reads 32 bytes, writes 16
constexpr uint32_t lanes = 32;
constexpr uint32_t nonfiniteFlag = ~magnitudeMask; // shares one word with the finite maximum

static_assert(operands * lanes <= blockSize && blockSize % lanes == 0);

// Reads eight elements that are aligned to 16 bytes. Evict first: the source is read only once, and the product should
// find the copy in the cache.
__device__ inline void loadWide(const float *source, float (&x)[vectorSize])
{
	const float4 *const wide = reinterpret_cast<const float4 *>(source);
	const float4 low = __ldcs(wide), high = __ldcs(wide + 1);
	memcpy(x, &low, sizeof low); // one copy: four small stores would stall a CPU's next wide load
	memcpy(x + 4, &high, sizeof high);
}

// Reads `left` elements one by one, and fills up with zeros.
__device__ inline void loadSome(const float *source, int left, float (&x)[vectorSize])
{
	AUTOAMP_UNROLL
	for (int i = 0; i < vectorSize; ++i)
		x[i] = i < left ? __ldcs(source + i) : 0.0f;
}

// Splits the index of a thread or block into three by division. The extents can be larger than any index; the division
// has 32 bits.
struct SplitIndex {
	static constexpr int64_t mostExtent = 0xffffffff;
	uint32_t inner, middle, outer;

	__device__ SplitIndex(uint32_t index, int64_t innerExtent, int64_t middleExtent = mostExtent)
	{
		const uint32_t most = static_cast<uint32_t>(min(innerExtent, mostExtent));
		const uint32_t next = static_cast<uint32_t>(min(middleExtent, mostExtent));
		const uint32_t columns = index / most;
		inner = index - columns * most;
		outer = columns / next;
		middle = columns - outer * next;
	}
};

// Iterates over this thread's share of an operand: vectors of 8 elements down the columns, then across columns and
// matrices. A thread takes one vector per step of the whole grid. Only the constructor divides. Pointers advance by
// constants within a matrix; multiplications are left to enter(). 64-bit indices, for matrices of more than 2^31
// elements.
class Walk
{
public:
	__device__ Walk(const Operand &operand, uint32_t thread, uint32_t threads)
	    : operand_(operand), rowsOfVectors_((operand.rows + vectorSize - 1) / vectorSize * vectorSize),
	      matrix_(operand.batch)
	{
		if (operand.rows == 0 || operand.columns == 0)
			return;
		const int64_t vectors = rowsOfVectors_ / vectorSize;
		const SplitIndex first(thread, vectors, operand.columns), step(threads, vectors, operand.columns);
		row_ = int64_t{first.inner} * vectorSize - operand.rows;
		column_ = first.middle - operand.columns;
		matrix_ = first.outer;
		rowStep_ = step.inner * vectorSize, columnStep_ = step.middle, matrixStep_ = step.outer;
		sourceStep_ = columnStep_ * operand.sourceLd + rowStep_;
		targetStep_ = columnStep_ * operand.targetLd + rowStep_;
		enter();
	}
	__device__ bool valid() const { return matrix_ < operand_.batch; }
	__device__ void advance()
	{
		row_ += rowStep_;
		column_ += columnStep_;
		source_ += sourceStep_;
		target_ += targetStep_;
		if (row_ >= 0) {
			row_ -= rowsOfVectors_;
			++column_;
			source_ += operand_.sourceLd - rowsOfVectors_;
			target_ += operand_.targetLd - rowsOfVectors_;
		}
		if (column_ >= 0 || matrixStep_ > 0) {
			matrix_ += matrixStep_;
			if (column_ >= 0) {
				column_ -= operand_.columns;
				++matrix_;
			}
			enter();
		}
	}
	__device__ uint4 *target() const { return reinterpret_cast<uint4 *>(target_); }
	__device__ int64_t position() const { return source_ - operand_.source; } // in an operand without a batch
	// Memory past the last row may contain NaN or be unmapped: it is not read. Zeros replace it; they change no maximum
	// and are written only to padding.
	__device__ void load(float (&x)[vectorSize]) const
	{
		if (isWide_ && row_ <= -vectorSize)
			loadWide(source_, x);
		else
			loadSome(source_, static_cast<int>(min(-row_, int64_t{vectorSize})), x);
	}

private:
	// Enters a matrix of the batch. 16-byte loads need columns that are aligned to 16 bytes; cuBLAS only requires 4.
	__device__ void enter()
	{
		if (matrix_ >= operand_.batch)
			return;
		const int64_t row = operand_.rows + row_, column = operand_.columns + column_;
		source_ = operand_.isArray ? reinterpret_cast<const float *const *>(operand_.source)[matrix_]
		                           : operand_.source + matrix_ * operand_.sourceStride;
		isWide_ = ((reinterpret_cast<uintptr_t>(source_) & 15) | (operand_.sourceLd & 3)) == 0;
		source_ += column * operand_.sourceLd + row;
		target_ = operand_.target + matrix_ * operand_.targetStride + column * operand_.targetLd + row;
	}

	const Operand &operand_;
	int64_t rowsOfVectors_;        // the rows, rounded up
	int64_t row_ = 0, column_ = 0; // less the number of rows or columns, so that they are compared to 0
	int64_t matrix_, sourceStep_ = 0, targetStep_ = 0;
	uint32_t rowStep_ = 0, columnStep_ = 0, matrixStep_ = 0;
	const float *source_ = nullptr;
	uint16_t *target_ = nullptr;
	bool isWide_ = false;
};

constexpr uint32_t firstClamped = 0x7f7f8000; // halfway between the largest finite bfloat16 and 2^128

// Bits of |x| if the nearest bfloat16 of this finite x is Inf, else 0.
__device__ inline int32_t clampedMagnitude(float x)
{
	const uint32_t magnitude = bitsOf(x) & magnitudeMask;
	return magnitude - firstClamped < infinityBits - firstClamped ? static_cast<int32_t>(magnitude) : 0;
}

// The nearest bfloat16, ties to even, except that a finite x stays finite: a mask of -FLT_MAX times 0 must not be NaN.
__device__ inline uint16_t bfloat16Of(float x)
{
	const uint16_t nearest = __bfloat16_as_ushort(__float2bfloat16_rn(x));
	return static_cast<uint16_t>(nearest - (clampedMagnitude(x) != 0));
}

// Bits of the largest |x|. As integers, Inf and NaN are larger than all finite numbers.
__device__ inline int32_t largestMagnitude(const float (&x)[vectorSize])
{
	int32_t largest = 0;
	AUTOAMP_UNROLL
	for (int i = 0; i < vectorSize; ++i)
		largest = max(largest, static_cast<int32_t>(bitsOf(x[i]) & magnitudeMask));
	return largest;
}

// Conversions of eight elements. Plain loops, so that each compiler can optimize them for its machine. Usually one
// maximum shows that no element needs more than the conversion.
struct ToBfloat16 {
	int32_t clamped = 0; // bits of the largest |x| that was clamped
	__device__ void operator()(const float (&x)[vectorSize], uint16_t (&y)[vectorSize])
	{
		if (largestMagnitude(x) < static_cast<int32_t>(firstClamped)) {
			AUTOAMP_UNROLL
			for (int i = 0; i < vectorSize; i += 2) {
				const __nv_bfloat162 pair = __floats2bfloat162_rn(x[i], x[i + 1]); // one instruction
				y[i] = __bfloat16_as_ushort(pair.x), y[i + 1] = __bfloat16_as_ushort(pair.y);
			}
			return;
		}
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i) {
			y[i] = bfloat16Of(x[i]);
			clamped = max(clamped, clampedMagnitude(x[i]));
		}
	}
	__device__ uint16_t one(float x) const { return bfloat16Of(x); }
};

__device__ inline int32_t finiteMagnitude(float x)
{
	const int32_t magnitude = bitsOf(x) & magnitudeMask;
	return magnitude < static_cast<int32_t>(infinityBits) ? magnitude : 0;
}

struct ToHalf {
	float scale;
	int32_t amax = 0; // bits of the largest finite |x|: of x and not of the half, because a stale scale overflows
	bool isNonfinite = false;
	__device__ void operator()(const float (&x)[vectorSize], uint16_t (&y)[vectorSize])
	{
		int32_t largest = largestMagnitude(x);
		if (largest >= static_cast<int32_t>(infinityBits)) {
			isNonfinite = true;
			largest = 0;
			AUTOAMP_UNROLL
			for (int i = 0; i < vectorSize; ++i)
				largest = max(largest, finiteMagnitude(x[i]));
		}
		amax = max(amax, largest);
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i)
			y[i] = one(x[i]);
	}
	__device__ uint16_t one(float x) const { return __half_as_ushort(__float2half_rn(x * scale)); }
};

// Called before each conversion, with the position of the elements. Only an observed conversion needs it (weights.cuh).
template <class Convert>
__device__ inline void moveTo(Convert &, int64_t)
{
}

template <class Convert>
__device__ inline void store(const float (&x)[vectorSize], uint4 *target, Convert &convert, int64_t position)
{
	uint16_t y[vectorSize];
	moveTo(convert, position);
	convert(x, y);
	uint4 words;
	memcpy(&words, y, sizeof words);
	__stwb(target, words); // explicit: nvcc would split an assignment into four stores of 4 bytes
}

// Casts this thread's share of one operand, two vectors per iteration, so that both loads are in flight at once.
template <class Convert>
__device__ inline void castShare(const Operand &operand, uint32_t block, uint32_t blocks, Convert &convert)
{
	for (Walk walk(operand, block * blockSize + threadIdx.x, blocks * blockSize); walk.valid();) {
		float first[vectorSize], second[vectorSize];
		uint4 *const target = walk.target();
		const int64_t position = walk.position();
		walk.load(first);
		walk.advance();
		if (walk.valid()) {
			uint4 *const next = walk.target();
			const int64_t nextPosition = walk.position();
			walk.load(second);
			walk.advance();
			store(first, target, convert, position);
			store(second, next, convert, nextPosition);
		} else {
			store(first, target, convert, position);
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
	// Logarithm of the number of adjacent elements, down the columns or along the rows.
	__device__ int logOf(bool isDown) const { return isDown ? log_ : logElements - log_; }
	__device__ int place(int row, int column) const { return row * (columns() + 1) + column; }

private:
	static constexpr int logElements = 11;
	static_assert(1 << logElements == tileElements);
	int log_ = 3;
};

// Elements of a tile that one thread takes when adjacent threads take adjacent elements: down the columns or along the
// rows. One of the indices is the same for all eight elements.
struct TileShare {
	int row, column, rowStep, columnStep;

	__device__ TileShare(const TileShape &shape, bool isDown)
	{
		const int mine = static_cast<int>(threadIdx.x), log = shape.logOf(isDown);
		const int low = mine & ((1 << log) - 1), high = mine >> log, step = static_cast<int>(blockSize) >> log;
		row = isDown ? low : high;
		column = isDown ? high : low;
		rowStep = isDown ? 0 : step;
		columnStep = isDown ? step : 0;
	}
	__device__ bool isInside(int i, int rows, int columns) const
	{
		return row + i * rowStep < rows && column + i * columnStep < columns;
	}
};

// Iterates over the tiles of a block, down the rows first. 64-bit indices for the tile, 32-bit indices within it.
class TileWalk
{
public:
	__device__ TileWalk(const TileShape &shape, int64_t rows, int64_t columns, uint32_t block, uint32_t blocks)
	    : shape_(shape), rows_(rows), columns_(columns)
	{
		const int64_t across = (rows + shape.rows() - 1) / shape.rows();
		const SplitIndex first(block, across), step(blocks, across);
		firstRow_ = int64_t{first.inner} * shape.rows(), firstColumn_ = int64_t{first.middle} * shape.columns();
		rowStep_ = int64_t{step.inner} * shape.rows(), columnStep_ = int64_t{step.middle} * shape.columns();
		rowsOfTiles_ = across * shape.rows();
	}
	__device__ bool valid() const { return firstColumn_ < columns_; }
	__device__ void advance()
	{
		firstRow_ += rowStep_, firstColumn_ += columnStep_;
		if (firstRow_ >= rowsOfTiles_)
			firstRow_ -= rowsOfTiles_, firstColumn_ += shape_.columns();
	}
	__device__ int64_t firstRow() const { return firstRow_; }
	__device__ int64_t firstColumn() const { return firstColumn_; }
	// Number of rows and columns in the tile, or more. Columns from `end` on do not count.
	__device__ int rows() const { return static_cast<int>(min(rows_ - firstRow_, int64_t{mostTileRows})); }
	__device__ int columnsBefore(int64_t end) const
	{
		return static_cast<int>(max(min(end - firstColumn_, int64_t{tileElements}), int64_t{0}));
	}

private:
	const TileShape &shape_;
	int64_t rows_, columns_, firstRow_, firstColumn_, rowStep_, columnStep_, rowsOfTiles_;
};

// dividend / divisor of positive numbers, usually in 32 bits. The 64-bit division of the GPU compiler is a function,
// which costs registers.
__device__ inline int64_t quotientOf(int64_t dividend, int64_t divisor)
{
	if (dividend < SplitIndex::mostExtent)
		return static_cast<uint32_t>(dividend) / static_cast<uint32_t>(min(divisor, SplitIndex::mostExtent));
	uint64_t quotient = static_cast<uint64_t>(dividend), rest = 0;
	AUTOAMP_LOOP
	for (int bit = 0; bit < 64; ++bit) {
		rest = rest << 1 | quotient >> 63;
		quotient <<= 1;
		if (rest >= static_cast<uint64_t>(divisor))
			rest -= static_cast<uint64_t>(divisor), quotient |= 1;
	}
	return static_cast<int64_t>(quotient);
}

__device__ inline int64_t offsetOf(const TensorLayout &layout, int64_t column)
{
	int64_t offset = 0;
	int level = 0;
	AUTOAMP_LOOP
	for (; level + 1 < layout.levels; ++level) {
		const int64_t next = quotientOf(column, layout.extent[level]);
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

// True if every vector of 8 elements of a column is adjacent in memory and aligned to 16 bytes.
__device__ inline bool isWide(const Tensor &tensor)
{
	int64_t strides = 0;
	for (int level = 0; level < tensorLevels; ++level)
		strides |= level < tensor.layout.levels ? tensor.layout.stride[level] : 0;
	return isDown(tensor.layout) && ((reinterpret_cast<uintptr_t>(tensor.source) & 15) | (strides & 3)) == 0;
}

// Casts this block's share of a tensor. Reads and writes whole cache lines in both orientations. A channels-last source
// is read in vectors, the others through shared memory.
template <class Convert>
static __device__ inline void castShare(const Tensor &tensor, uint32_t block, uint32_t blocks, Convert &convert,
                                        Tile &tile)
{
	const TensorLayout &layout = tensor.layout;
	const TileShape shape(layout.rows);
	const int64_t filled = layout.columns();
	const bool isSourceWide = isWide(tensor), isTargetWide = tensor.targetLd % vectorSize == 0;
	const int mine = static_cast<int>(threadIdx.x);
	const int row = mine * vectorSize & (shape.rows() - 1), column = mine * vectorSize >> shape.logOf(true);
	for (TileWalk walk(shape, layout.rows, filled + tensor.zeroColumns, block, blocks); walk.valid(); walk.advance()) {
		const int left = walk.rows() - row, filledColumns = walk.columnsBefore(filled);
		float x[vectorSize];
		if (isSourceWide) {
			const bool isFilled = column < filledColumns;
			const float *const source =
			    tensor.source + walk.firstRow() + row + (isFilled ? offsetOf(layout, walk.firstColumn() + column) : 0);
			if (isFilled && left >= vectorSize)
				loadWide(source, x);
			else
				loadSome(source, isFilled ? left : 0, x);
		} else {
			if (mine < shape.columns() && mine < filledColumns)
				tile.offset[mine] = offsetOf(layout, walk.firstColumn() + mine);
			__syncthreads();
			const TileShare from(shape, isDown(layout));
			const float *const source = tensor.source + (walk.firstRow() + from.row) * layout.rowStride;
			const int64_t step = from.rowStep * layout.rowStride;
			AUTOAMP_UNROLL
			for (int i = 0; i < vectorSize; ++i)
				x[i] = from.isInside(i, walk.rows(), filledColumns)
				           ? __ldcs(source + i * step + tile.offset[from.column + i * from.columnStep])
				           : 0.0f;
			AUTOAMP_UNROLL
			for (int i = 0; i < vectorSize; ++i)
				tile.x[shape.place(from.row + i * from.rowStep, from.column + i * from.columnStep)] = x[i];
			__syncthreads();
			AUTOAMP_UNROLL
			for (int i = 0; i < vectorSize; ++i)
				x[i] = tile.x[shape.place(row + i, column)];
			__syncthreads();
		}
		if (left <= 0 || column >= walk.columnsBefore(filled + tensor.zeroColumns))
			continue;
		uint16_t *const target =
		    tensor.target + (walk.firstColumn() + column) * tensor.targetLd + walk.firstRow() + row;
		const int64_t position = (walk.firstColumn() + column) * layout.rows + walk.firstRow() + row;
		if (isTargetWide) {
			store(x, reinterpret_cast<uint4 *>(target), convert, position);
		} else {
			uint16_t y[vectorSize];
			moveTo(convert, position);
			convert(x, y);
			AUTOAMP_UNROLL
			for (int i = 0; i < vectorSize; ++i)
				if (i < left)
					target[i] = y[i];
		}
	}
}

// Reads up to eight elements of a column of the result, and fills up with zeros.
__device__ inline void loadResult(const Placement &p, int64_t at, int left, float (&x)[vectorSize])
{
	const bool isWide =
	    left >= vectorSize && ((reinterpret_cast<uintptr_t>(p.result) & 15) | (p.resultLd & (vectorSize - 1))) == 0;
	if (p.isBfloat16) {
		const uint16_t *const source = static_cast<const uint16_t *>(p.result) + at;
		uint16_t y[vectorSize];
		if (isWide) {
			const uint4 words = __ldcs(reinterpret_cast<const uint4 *>(source));
			memcpy(y, &words, sizeof y);
		} else {
			AUTOAMP_UNROLL
			for (int i = 0; i < vectorSize; ++i)
				y[i] = i < left ? source[i] : 0;
		}
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i)
			x[i] = floatOf(static_cast<uint32_t>(y[i]) << 16) * p.scale;
	} else if (isWide) {
		loadWide(static_cast<const float *>(p.result) + at, x);
	} else {
		loadSome(static_cast<const float *>(p.result) + at, left, x);
	}
}

// The nearest value of a 16-bit type; Inf beyond the largest finite one, as in the frameworks.
__device__ inline float rounded(float x, Rounding rounding)
{
	if (rounding == Rounding::half)
		return floatOfHalf(__half_as_ushort(__float2half_rn(x)));
	if (rounding == Rounding::bfloat16)
		return floatOf(static_cast<uint32_t>(__bfloat16_as_ushort(__float2bfloat16_rn(x))) << 16);
	return x;
}

// The grid walks B from its other end: the blocks that have one vector more of A have one less of B.
__device__ inline uint32_t blockFor(int operand)
{
	return operand == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
}

// Casts this block's share of an operand, or all of it.
template <class Convert>
static __device__ inline void castOperand(const Parameters &p, int operand, Convert &convert, Tile *,
                                          bool isAlone = false)
{
	castShare(p.operand[operand], isAlone ? 0 : blockFor(operand), isAlone ? 1 : gridDim.x, convert);
}

template <class Convert>
static __device__ inline void castOperand(const TensorParameters &p, int operand, Convert &convert, Tile *tile,
                                          bool isAlone = false)
{
	castShare(p.tensor[operand], isAlone ? 0 : blockFor(operand), isAlone ? 1 : gridDim.x, convert, *tile);
}

__device__ inline uint32_t totalOf(const Events &p, EventKind kind)
{
	const volatile uint32_t *totals = p.ring && p.site < siteCount ? p.ring->totals[p.site][0] : nullptr;
	return totals ? totals[static_cast<uint32_t>(kind)] : 1;
}

// Takes a place in the ring, for an event with all fields except for `sequence`, which complete() sets. It is reset
// first: otherwise a reader of a ring that wrapped could mix the fields of two records.
static __device__ inline uint64_t begin(Ring &ring)
{
	const unsigned long long index = atomicAdd(reinterpret_cast<unsigned long long *>(&ring.written), 1ull);
	static_cast<volatile uint64_t &>(ring.events[index % ringSize].sequence) = 0;
	__threadfence_system();
	return index;
}

static __device__ inline void complete(Ring &ring, uint64_t index)
{
	__threadfence_system();
	static_cast<volatile uint64_t &>(ring.events[index % ringSize].sequence) = index + 1;
}

// Counts an event, and records it. The totals are always exact.
__device__ inline void report(const Events &p, EventKind kind, uint32_t operand, int before, int after, uint32_t amax,
                              const Loss &loss = {})
{
	if (!p.ring)
		return;
	const bool known = p.site < siteCount;
	atomicAdd(&p.ring->totals[known ? p.site : 0][operand][static_cast<uint32_t>(kind)], 1u);
	if (!known)
		return;
	const uint64_t index = begin(*p.ring);
	Event &event = p.ring->events[index % ringSize];
	event.site = p.site;
	event.kind = kind;
	event.operand = operand;
	event.before = before;
	event.after = after;
	event.amax = amax;
	event.loss = loss;
	complete(*p.ring, index);
}

// A read that the compiler does not move or reuse.
template <class T>
static __device__ inline T readOnce(const T *source, T absent)
{
	if (!source) // a conditional expression would make `absent` volatile, too
		return absent;
	return *static_cast<const volatile T *>(source);
}

// Body of autoamp_watch. The payload of an update contains its totals, so none is kept by kind.
__device__ inline void watch(const Probe &p)
{
	auto &scaler = p.ring->scalers[p.scaler];
	const GradientState state = {readOnce(p.scale, floatOf(0x7fc00000)), readOnce(p.tracker, -1),
	                             readOnce(p.hysteresis, -1)};
	if (!p.isAfter) {
		scaler.before = state;
		return;
	}
	float foundInf = p.foundInfValue;
	if (p.foundInf)
		foundInf = p.foundInfBytes == 1 ? readOnce(static_cast<const uint8_t *>(p.foundInf), uint8_t{0}) != 0
		                                : readOnce(static_cast<const float *>(p.foundInf), 0.0f);
	scaler.steps++;
	scaler.skipped += foundInf != 0;
	const uint64_t index = begin(*p.ring);
	Event &event = p.ring->events[index % ringSize];
	event.kind = EventKind::update;
	event.before = static_cast<int32_t>(p.ticks);
	event.after = static_cast<int32_t>(p.ticks >> 32);
	event.update = {scaler.before, state, foundInf, p.scaler, scaler.steps, scaler.skipped};
	complete(*p.ring, index);
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
#include "kernels/strict.cuh"

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
__device__ inline uint32_t strictCast(const TensorParameters &, int, int)
{
	return 0;
}

} // namespace autoamp::kernels

#include "kernels/weights.cuh"

namespace autoamp::kernels {

// Casts both operands to half in one launch, for matrices or tensors. kept: shared memory of a kernel for kept
// operands.
template <class Call>
static __device__ inline void castToHalf(const Call &p, uint32_t (&maxima)[operands][blockSize], CastRecord &record,
                                         Tile *tile, KeptRecord *kept = nullptr)
{
	if (threadIdx.x == 0) {
		record = predicted(p);
		beginCheck(p, record);
		if (kept)
			beginKept(p, *kept, record);
	}
	__syncthreads();
	AUTOAMP_UNROLL
	for (int i = 0; i < operands; ++i) {
		if (isStrict(p)) {
			maxima[i][threadIdx.x] = strictCast(p, i, record.used[i]);
			continue;
		}
		ToHalf convert{powerOfTwo(record.used[i])};
		if (kept && p.kept[i].how != Keeping::none) {
			maxima[i][threadIdx.x] = castKept(p, i, convert, *kept, tile);
			checkCast(p, record, i);
			continue;
		}
		castOperand(p, i, convert, tile);
		maxima[i][threadIdx.x] = convert.amax | (convert.isNonfinite ? nonfiniteFlag : 0);
		checkCast(p, record, i);
	}
	__syncthreads();
	if (kept && threadIdx.x == 0)
		p.keptRecords[blockIdx.x] = *kept;
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

// Converts operands again whose exponent was wrong, as this block's share or alone. One block concludes.
template <class Call>
static __device__ inline void correct(const Call &p, const Findings &found, Tile *tile, bool isAlone)
{
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
			castOperand(p, i, convert, tile, isAlone);
		}
	}
	if ((isAlone || blockIdx.x == 0) && threadIdx.x == 0) {
		conclude(p, *p.scratch, found, scales, isRecast);
		countCall(p, found);
	}
}

// Every block computes the same scales from values that settle does not write (the records, alpha). No block reads the
// values that conclude() writes. Usually nothing is recast, and the block returns at once.
template <class Call>
static __device__ inline void settle(const Call &p, Findings &found, Tile *tile)
{
	gather(p, found);
	correct(p, found, tile, false);
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
	waitForCast();
	__shared__ Findings found;
	settle(p, found, nullptr);
	if (isStrict(p))
		strictSettle(p, found);
	else if (found.isChecked())
		probeSettle(p, found);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 4)
    autoamp_mend(const __grid_constant__ autoamp::kernels::Parameters p)
{
	using namespace autoamp::kernels;
	if (p.scratch->mending.isNeeded)
		strictMend(p);
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
	waitForCast();
	__shared__ Findings found;
	__shared__ Tile tile;
	settle(p, found, &tile);
}

// For calls with kept or observed operands. Three blocks on a multiprocessor: with the registers of four, the
// conversions would use local memory.
extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 3)
    autoamp_cast_kept_half(const __grid_constant__ autoamp::kernels::Parameters p)
{
	using namespace autoamp::kernels;
	__shared__ uint32_t maxima[operands][blockSize];
	__shared__ CastRecord record;
	__shared__ KeptRecord kept;
	castToHalf(p, maxima, record, nullptr, &kept);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 3)
    autoamp_settle_kept_half(const __grid_constant__ autoamp::kernels::Parameters p)
{
	using namespace autoamp::kernels;
	waitForCast();
	__shared__ Findings found;
	__shared__ KeptRecord kept;
	settleKeptHalf(p, found, kept, nullptr);
	if (found.isChecked())
		probeSettle(p, found);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 3)
    autoamp_cast_kept_bfloat16(const __grid_constant__ autoamp::kernels::Parameters p)
{
	using namespace autoamp::kernels;
	__shared__ KeptRecord kept;
	castKeptToBfloat16(p, kept, nullptr);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 3)
    autoamp_settle_kept_bfloat16(const __grid_constant__ autoamp::kernels::Parameters p)
{
	using namespace autoamp::kernels;
	waitForCast();
	__shared__ KeptRecord kept;
	settleKeptBfloat16(p, kept, nullptr);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 3)
    autoamp_cast_kept_half_tensor(const __grid_constant__ autoamp::kernels::TensorParameters p)
{
	using namespace autoamp::kernels;
	__shared__ uint32_t maxima[operands][blockSize];
	__shared__ CastRecord record;
	__shared__ KeptRecord kept;
	__shared__ Tile tile;
	castToHalf(p, maxima, record, &tile, &kept);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 3)
    autoamp_settle_kept_half_tensor(const __grid_constant__ autoamp::kernels::TensorParameters p)
{
	using namespace autoamp::kernels;
	waitForCast();
	__shared__ Findings found;
	__shared__ KeptRecord kept;
	__shared__ Tile tile;
	settleKeptHalf(p, found, kept, &tile);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 2)
    autoamp_cast_kept_bfloat16_tensor(const __grid_constant__ autoamp::kernels::TensorParameters p)
{
	using namespace autoamp::kernels;
	__shared__ KeptRecord kept;
	__shared__ Tile tile;
	if (blockIdx.x == 0 && threadIdx.x == 0)
		p.scratch->alpha = p.alphaValue;
	castKeptToBfloat16(p, kept, &tile);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 3)
    autoamp_settle_kept_bfloat16_tensor(const __grid_constant__ autoamp::kernels::TensorParameters p)
{
	using namespace autoamp::kernels;
	waitForCast();
	__shared__ KeptRecord kept;
	__shared__ Tile tile;
	settleKeptBfloat16(p, kept, &tile);
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize, 4)
    autoamp_place(const __grid_constant__ autoamp::kernels::Placement p)
{
	using namespace autoamp::kernels;
	__shared__ Tile tile;
	const TensorLayout &layout = p.layout;
	const TileShape shape(layout.rows);
	const TileShare to(shape, isDown(layout));
	const int mine = static_cast<int>(threadIdx.x);
	const int row = mine * vectorSize & (shape.rows() - 1), column = mine * vectorSize >> shape.logOf(true);
	for (TileWalk walk(shape, layout.rows, layout.columns(), blockIdx.x, gridDim.x); walk.valid(); walk.advance()) {
		const int rows = walk.rows(), columns = walk.columnsBefore(layout.columns());
		if (mine < shape.columns() && mine < columns)
			tile.offset[mine] = offsetOf(layout, walk.firstColumn() + mine);
		if (row < rows && column < columns) {
			float x[vectorSize];
			loadResult(p, (walk.firstColumn() + column) * p.resultLd + walk.firstRow() + row, rows - row, x);
			AUTOAMP_UNROLL
			for (int i = 0; i < vectorSize; ++i)
				tile.x[shape.place(row + i, column)] = x[i];
		}
		__syncthreads();
		const int64_t firstOffset = (walk.firstRow() + to.row) * layout.rowStride;
		AUTOAMP_UNROLL
		for (int i = 0; i < vectorSize; ++i) {
			if (!to.isInside(i, rows, columns))
				continue;
			const int toRow = to.row + i * to.rowStep, toColumn = to.column + i * to.columnStep;
			float value = tile.x[shape.place(toRow, toColumn)];
			const int64_t at = tile.offset[toColumn] + firstOffset + i * to.rowStep * layout.rowStride;
			if (p.added)
				value = fmaf(p.factor, p.added[at], value);
			if (p.bias)
				value += p.bias[walk.firstRow() + toRow];
			if (p.activation != Activation::none && !(value > 0) &&
			    !(p.activation == Activation::reluOfNan && value != value))
				value = 0;
			p.target[at] = rounded(value, p.rounding);
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
			target[row] = rounded(beta == 0 ? product[row] : fmaf(beta, source[row], product[row]), s.rounding);
	}
}

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize)
    autoamp_round(const __grid_constant__ autoamp::kernels::Rounded r)
{
	using namespace autoamp::kernels;
	const int64_t count = r.layout.rows * r.layout.columns(), step = int64_t{gridDim.x} * blockSize;
	for (int64_t index = int64_t{blockIdx.x} * blockSize + threadIdx.x; index < count; index += step) {
		const int64_t column = quotientOf(index, r.layout.rows), row = index - column * r.layout.rows;
		float &value = r.target[offsetOf(r.layout, column) + row * r.layout.rowStride];
		value = rounded(value, r.rounding);
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

extern "C" __global__ void autoamp_watch(const __grid_constant__ autoamp::kernels::Probe p)
{
	autoamp::kernels::watch(p);
}
