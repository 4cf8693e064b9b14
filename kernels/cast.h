// What host and device agree on about the conversion kernels (cast.cu): parameters, scratch, tables. Plain data, no
// policy, no allocation. Formulas: docs/adr on verified scaling. The same text compiles for the GPU and as host C++.
#pragma once

#include "kernels/scaling.h"

#include <cstdint>

namespace autoamp::kernels {

constexpr int operands = 2; // A, B

// One operand: column-major as stored (no transposition happens here), `rows` contiguous elements a column.
// source 4-byte aligned; target 256-byte aligned with targetLd a multiple of 8, so that 8 elements are one 16-byte
// store.
struct Operand {
	const float *source; // of a batch by pointers: `const float *const *`, an array of batch pointers
	uint16_t *target;    // half or bfloat16 bits
	int64_t rows, columns;
	int64_t sourceLd, targetLd;         // elements
	int64_t sourceStride, targetStride; // elements between matrices; a source stride of 0 arrives here as batch 1
	int64_t batch;
	bool isArray = false; // a batch by pointers
};

// Where the elements of a tensor lie. Rows are its channels; columns are everything else, the innermost level first.
// Strides in elements, negative along a filter that is turned round (the base pointer is then its last element).
constexpr int tensorLevels = 4;
struct TensorLayout {
	int64_t rows, rowStride;
	int levels; // at least 1; what lies beyond has extent 1
	int64_t extent[tensorLevels], stride[tensorLevels];

	AUTOAMP_HOST_DEVICE int64_t columns() const { return extent[0] * extent[1] * extent[2] * extent[3]; }
};

// One operand of a convolution, on its way to channels-last: any strides become columns of `rows` contiguous elements,
// targetLd apart, zeros behind them, and `zeroColumns` columns of zeros behind those.
struct Tensor {
	const float *source; // 4-byte aligned
	uint16_t *target;    // 256-byte aligned
	TensorLayout layout;
	int64_t targetLd; // rows, or more: the next multiple of 8
	int64_t zeroColumns;
};

// A convolution's result on its way from channels-last to where the application wants it:
// target = activation(result + factor * added + bias).
enum class Activation : uint32_t { none, relu, reluOfNan }; // reluOfNan: a NaN stays one
struct Placement {
	const void *result; // columns resultLd apart, each of layout.rows elements or more
	bool isBfloat16;    // else float
	int64_t resultLd;
	float *target;
	TensorLayout layout; // of the target
	const float *added;  // null: nothing; else laid out as the target, which it may be
	float scale, factor; // scale: of a bfloat16 result
	const float *bias;   // one for each row; null: none
	Activation activation;
};

// Results on their way home, for a batch by pointers: D = product + beta * C, C not read where beta is 0.
struct Scatter {
	const float *product;
	const float *const *sources; // C: batch pointers, 4-byte aligned
	float *const *targets;       // D: the same
	int64_t rows, columns;
	int64_t productLd, sourceLd, targetLd, productStride; // elements
	int64_t batch;
	const float *beta; // device pointer, or null: the value
	float betaValue;
};

// The sum of an operand over k, for a gradient: as many outputs as the operand has rows or columns.
struct Sum {
	const float *source; // 4-byte aligned, as the target
	float *target;
	int64_t outputs, depth;
	int64_t sourceLd, sourceStride, targetStride; // elements
	int64_t batch;
	bool isAlongRows; // the operand's rows, as stored, are what is summed
};

// The scalars of a product that summed in half, for one that sums in float.
struct Scalars {
	const uint16_t *alpha, *beta; // device pointers to half
	float *widened;               // alpha, then beta
};

// A call's own scratch on the device, 256-byte aligned: exponents *used* and maxima belong to the call, never to a
// shared slot (two host threads on one stream run cast1 cast2 settle1 settle2).
struct Scratch {
	float alpha, beta;            // read by the GEMM in device pointer mode
	int32_t used[operands];       // exponent the cast used: s = 2^used
	uint32_t amax[operands];      // bits of the largest finite |x|
	uint32_t nonfinite[operands]; // 1: some Inf or NaN
	uint32_t overflow[operands];  // 1: a finite x became Inf in 16 bits (scaling off, or a stale scale)
	int32_t right[operands];      // settle: the exponent the operand must have
	// The loss check:
	uint32_t isChecked, isRegular; // regular: one of the two first calls, or one in 127
	int32_t sumExponent[operands]; // the cast's sums are of x * 2^this
	float lossEnergy[operands];    // how much of the loss comes from this operand
	uint32_t checkers;             // blocks of settle that have done their share
	int64_t firstMatrix;           // of a batch, the first one that is checked
};

// ---- the loss check: docs/adr on it

// Sums with random signs, of one k or of one line (a row of op(A), a column of op(B)): of the values, and of what
// float16 loses of them.
constexpr int probes = 4;
struct alignas(16) ProbeSums {
	float value[probes], loss[probes];
};

// Loss: float16 adds more than 4e-4 of the product's norm to TF32's error, or more than 1e-2 to more than one line in
// 1024.
constexpr double productLoss = 4e-4, lineLoss = 1e-2;
constexpr uint64_t linesPerLost = 1024;

// Matrices of a batch that one call checks; the next checked call takes others.
constexpr int64_t mostChecked = 64;
AUTOAMP_HOST_DEVICE constexpr int64_t checkedMatrices(int64_t batch)
{
	return batch < mostChecked ? batch : mostChecked;
}

// The cast's sums must hold 2^24 elements of an operand that nobody has predicted, or that is not what was predicted.
constexpr int unpredictedExponent = -20, predictedShift = 13;

// Predictions, a device table, written only as predictions: collisions and races cost a recast, never a bit.
struct Prediction {
	uint64_t key; // 0: empty
	int32_t exponent[operands];
};
constexpr uint32_t predictionCount = 65536, predictionsPerBucket = 4;
// First slot of the bucket that a key belongs to. Bit 0 of every key is set and selects nothing.
AUTOAMP_HOST_DEVICE constexpr uint32_t bucketOf(uint64_t key)
{
	return static_cast<uint32_t>(key >> 1) % (predictionCount / predictionsPerBucket) * predictionsPerBucket;
}

// The loss is checked at the first two calls of a site and at one in 127, counted on the device so that replays of a
// graph count: such a call reads 8 bytes an element once more where the cast moves 6, which is 1 % of all casts. A
// prime: a site that stands for several layers in turn shows all of them.
constexpr uint32_t checkedEvery = 127;

// What a loss check has found: the error that float16 adds to TF32's, over the product's norm, the worst of a batch;
// rows and columns of op(A) op(B) that are lost, of all matrices that were checked.
struct Loss {
	float excess;
	uint32_t lostRows, lostColumns;
};

enum class EventKind : uint32_t { init = 1, rescale, scale_range, overflow, nonfinite_input, underflow, clamped };

// Rare events reach the host through mapped host memory, read at later calls and at exit. A record is complete when
// `sequence` (written last) is its index + 1.
struct Event {
	uint64_t sequence;
	uint32_t site; // index that the host gave the site
	EventKind kind;
	uint32_t operand;      // 0 A, 1 B
	int32_t before, after; // exponents; before is INT32_MIN at `init`
	uint32_t amax;         // bits
	Loss loss;             // of `underflow`
};
constexpr uint32_t ringSize = 4096;
// Exact totals a site, also when the ring wrapped: [site][operand][kind]. Site 0: all that have no place of their own.
constexpr uint32_t siteCount = 32768, kindCount = 8;
struct Ring {
	uint64_t written;
	Event events[ringSize];
	uint32_t totals[siteCount][operands][kindCount];
};

// A captured call runs again and again with the same parameters: only the totals can say which time is the first. That
// costs a read across the bus, so calls that need not ask do not.
enum class First : uint32_t { no, yes, askTotals };

// State of one site on the device. `clampedBy`: the highest number of a call that has clamped this operand. The blocks
// of one call share the number, so that one of them reports.
struct SiteState {
	unsigned long long clampedBy[operands];
	uint32_t calls;          // float16 calls begun in this context
	uint32_t isCheckedAgain; // the next call is checked, too: the last one was not predicted
};

// Where the events of a call go.
struct Events {
	Ring *ring;       // device pointer to mapped host memory; null: no events
	SiteState *sites; // [siteCount]; null: no `clamped`, no loss checks
	uint32_t site;    // 1 … siteCount - 1; beyond: the totals of 0, which is nobody's, no single events
	uint64_t call;    // number of the call in the process; a replay of a captured call has the number of its capture
};

// Runs of elements between float and bfloat16, as many as one launch takes: what a recurrent net reads and writes lies
// in many places.
constexpr int mostRuns = 118;
struct Runs : Events {
	struct {
		const void *source; // null: zeros, of bfloat16
		void *target;
		int64_t count;
	} run[mostRuns];
	int32_t count;
	int32_t weights; // from this run on they are operand B
	bool isWidening; // bfloat16 to float
	bool isAdded;    // to what is there
};

// Of any call that converts two operands.
struct Scaling : Events {
	Scratch *scratch;
	Prediction *predictions;   // null: scaling off
	uint64_t pairKey;          // hash of signature and both pointers; never 0
	uint64_t signatureKey;     // hash of the signature alone; never 0
	First first;               // `init` is told, not `rescale`, at the site's first call in this context
	const float *alpha, *beta; // device pointers, or null: the values below
	float alphaValue, betaValue;
};

struct Parameters : Scaling {
	Operand operand[operands];
	ProbeSums *sums;            // sumCount(), 16-byte aligned; null: the loss is not checked
	bool isAlongRows[operands]; // the operand's rows, as stored, are what k counts
};

// Sums along k of each operand's matrices, and of each product's lines.
AUTOAMP_HOST_DEVICE inline int64_t sumCount(const Parameters &p)
{
	const int64_t products =
	    checkedMatrices(p.operand[0].batch > p.operand[1].batch ? p.operand[0].batch : p.operand[1].batch);
	int64_t count = 0;
	for (int i = 0; i < operands; ++i) {
		const int64_t k = p.isAlongRows[i] ? p.operand[i].rows : p.operand[i].columns;
		const int64_t lines = p.isAlongRows[i] ? p.operand[i].columns : p.operand[i].rows;
		count += checkedMatrices(p.operand[i].batch) * k + products * lines;
	}
	return count;
}

// The loss of a convolution is not checked.
struct TensorParameters : Scaling {
	Tensor tensor[operands];
};

// Kernels, all extern "C", one parameter: `Parameters` by value.
//   autoamp_begin            1 block: zero the scratch, choose the prediction (pair key, else signature key, else 0)
//                            and write it as scratch->used. In stream order before the cast: one choice for all blocks.
//                            Counts the call; where its loss is checked, zeroes the sums.
//   autoamp_cast_half        A and B in one launch: x * 2^used -> half (RN), amax, non-finite and overflow flags; where
//                            the loss is checked, sums with random signs
//   autoamp_cast_bfloat16    A and B in one launch: x -> bfloat16 (RN, but a finite x stays finite: it becomes at most
//                            the largest finite bfloat16, event `clamped`); touches no scratch
//   autoamp_settle           right exponents, recast of the operands whose prediction was wrong, alpha_eff and beta to
//                            the scratch, new predictions, events. With predictions == null: alpha as it is, no recast.
//                            Where the loss is checked, the verdict, which is an event and nothing else.
//   autoamp_cast_tensor_half, autoamp_cast_tensor_bfloat16, autoamp_settle_tensor
//                            the same of TensorParameters; that to bfloat16 writes alpha to the scratch, which the
//                            convolution reads either way
//   autoamp_place            a Placement
//   autoamp_runs             a Runs instead of Parameters: to bfloat16 (as autoamp_cast_bfloat16), or back
//   autoamp_scatter          a Scatter instead of Parameters: every column by as many threads as it has use for
//   autoamp_sum              a Sum: a block has some outputs at a time, in an order that is always the same
//   autoamp_widen            a Scalars instead of Parameters, one block
constexpr uint32_t blockSize = 256;

// A tensor's layout is changed tile by tile, through shared memory: as many rows as it has use for, 64 at most.
constexpr int tileElements = 2048, mostTileRows = 64;
AUTOAMP_HOST_DEVICE constexpr int tileRows(int64_t rows)
{
	int most = 8;
	while (most < mostTileRows && most < rows)
		most *= 2;
	return most;
}
AUTOAMP_HOST_DEVICE constexpr int64_t tileCount(int64_t rows, int64_t columns)
{
	const int across = tileRows(rows), along = tileElements / across;
	return ((rows + across - 1) / across) * ((columns + along - 1) / along);
}

} // namespace autoamp::kernels
