// Interface between host and conversion kernels (cast.cuh): parameters, scratch, tables. Plain data, no policy, no
// allocation. Formulas: docs/adr/0002. The same text compiles for the GPU and as host C++.
#pragma once

#include "kernels/scaling.h"
#include "kernels/strict.h"
#include "kernels/weights.h"

#include <cstdint>

namespace autoamp::kernels {

constexpr int operands = 2; // A, B

// One operand: column-major as stored (transposition is left to the product), `rows` contiguous elements per column.
// source is 4-byte aligned. target is 256-byte aligned and targetLd a multiple of 8, so that 8 elements are one 16-byte
// store.
struct Operand {
	const float *source; // for a batch by pointers: `const float *const *`, an array of pointers to the matrices
	uint16_t *target;    // half or bfloat16 bits
	int64_t rows, columns;
	int64_t sourceLd, targetLd;         // elements
	int64_t sourceStride, targetStride; // elements between matrices; the host passes a source stride of 0 as batch 1
	int64_t batch;
	bool isArray = false; // a batch by pointers
};

// Layout of the elements of a tensor. Rows are its channels; columns are all other dimensions, innermost level first.
// Strides in elements. They are negative along a flipped filter, whose base pointer is its last element.
constexpr int tensorLevels = 4;
struct TensorLayout {
	int64_t rows, rowStride;
	int levels; // at least 1; levels beyond have extent 1
	int64_t extent[tensorLevels], stride[tensorLevels];

	AUTOAMP_HOST_DEVICE int64_t columns() const { return extent[0] * extent[1] * extent[2] * extent[3]; }
};

// Copy of a convolution operand to channels-last. Elements at any strides become columns of `rows` contiguous elements,
// targetLd apart and filled up with zeros. `zeroColumns` columns of zeros follow.
struct Tensor {
	const float *source; // 4-byte aligned
	uint16_t *target;    // 256-byte aligned
	TensorLayout layout;
	int64_t targetLd; // rows, or rows rounded up to a multiple of 8
	int64_t zeroColumns;
};

// Rounds a result through a 16-bit type, to nearest. Values beyond the largest finite one become Inf.
enum class Rounding : uint32_t { none, half, bfloat16 };

// Copy of a convolution result from channels-last to the application's layout: target = activation(result + factor *
// added + bias).
enum class Activation : uint32_t { none, relu, reluOfNan }; // reluOfNan: keeps NaN
struct Placement {
	const void *result; // columns are resultLd apart and have at least layout.rows elements
	bool isBfloat16;    // else float
	int64_t resultLd;
	float *target;
	TensorLayout layout; // of the target
	const float *added;  // null: nothing is added; else in the layout of the target, which it may be
	float scale, factor; // scale: multiplies a bfloat16 result
	const float *bias;   // one value per row; null: no bias
	Activation activation;
	Rounding rounding = Rounding::none; // rounding when the values are stored
};

// Rounding of a result in place.
struct Rounded {
	float *target;
	TensorLayout layout;
	Rounding rounding;
};

// Copy of the results of a batch by pointers: D = product + beta * C. C is not read if beta is 0.
struct Scatter {
	const float *product;
	const float *const *sources; // C: pointers to the matrices, 4-byte aligned
	float *const *targets;       // D: the same
	int64_t rows, columns;
	int64_t productLd, sourceLd, targetLd, productStride; // elements
	int64_t batch;
	const float *beta; // device pointer, or null: betaValue
	float betaValue;
	Rounding rounding = Rounding::none; // when D is stored
};

// Sum of an operand over k, for a gradient. The number of outputs is that of the operand's rows or columns.
struct Sum {
	const float *source; // 4-byte aligned, like the target
	float *target;
	int64_t outputs, depth;
	int64_t sourceLd, sourceStride, targetStride; // elements
	int64_t batch;
	bool isAlongRows; // the sum runs over the operand's rows as stored
};

// Converts the scalars of a product that sums in half for one that sums in float.
struct Scalars {
	const uint16_t *alpha, *beta; // device pointers to half
	float *widened;               // alpha, then beta
};

// Scratch memory of one call on the device, 256-byte aligned. It is not cleared before the call. The kernels of the
// call only read from it what they have written before.
struct Scratch {
	float alpha, beta; // read by the GEMM in device pointer mode
	// Written by settle, for tests: the findings of all blocks of the cast.
	int32_t used[operands];       // an exponent that the cast used, if possible a wrong one: s = 2^used
	uint32_t amax[operands];      // bits of the largest finite |x|
	uint32_t nonfinite[operands]; // 1: the operand has an Inf or NaN
	uint32_t overflow[operands];  // 1: a finite x became Inf in 16 bits (scaling off, or a stale scale)
	int32_t right[operands];      // the exponent that the operand must have
	uint32_t isChecked;           // 1: settle completed the loss check
	// The loss check, from zeros that a checked cast writes:
	float lossEnergy[operands]; // share of the loss that comes from this operand
	uint32_t checkers;          // number of settle blocks that finished their share
	Mending mending;            // set in a strict call
	Recast recast;              // used in a call with kept copies
};

// Findings and choices of one block of a cast to half, written once and read by settle. They belong to the call, not to
// a shared slot: two host threads on one stream can run cast1 cast2 settle1 settle2.
struct CastRecord {
	uint32_t maximum[operands]; // bits of the largest finite |x|; the sign bit is set if the block found an Inf or NaN
	int32_t used[operands];     // exponent that the block used: s = 2^used
	uint32_t call;              // calls of the site that settle had counted
	uint32_t flags;
};
constexpr uint32_t flagPredicted = 1; // the exponents come from a slot
constexpr uint32_t flagChecked = 2;   // the block added its share of the loss check
constexpr uint32_t flagRegular = 4;   // the check is not the repetition of an earlier one

// A cast has at most this many blocks, on any device. Memory for its records does not depend on the device.
constexpr uint32_t mostCastBlocks = 2048;

// ---- the loss check: docs/adr/0034

// Sums with random signs for one k or one line (a row of op(A), a column of op(B)). value: sums of the values; loss:
// sums of what float16 loses of them.
constexpr int probes = 4;
struct alignas(16) ProbeSums {
	float value[probes], loss[probes];
};

// Limits of the loss check. It reports a loss if float16 adds more than 4e-4 of the product's norm to the error of
// TF32. It also reports one if float16 adds more than 1e-2 to more than one line in 1024.
constexpr double productLoss = 4e-4, lineLoss = 1e-2;
constexpr uint64_t linesPerLost = 1024;

// Number of matrices of a batch that one call checks. The next checked call takes other matrices.
constexpr int64_t mostChecked = 64;
AUTOAMP_HOST_DEVICE constexpr int64_t checkedMatrices(int64_t batch)
{
	return batch < mostChecked ? batch : mostChecked;
}

// A cast adds up the sums along k in parts, each over some lines; settle adds the parts. All but the last have 256
// lines or more. The number of parts depends on the shape alone, because the host needs it for the memory of a call.
constexpr int tileWide = 64, tileDeep = 32; // indices that a block keeps; indices that it sums over at a time
constexpr int64_t leastTiles = 8, unitsOfSums = 512, mostParts = 32;
AUTOAMP_HOST_DEVICE constexpr int64_t tilesOfPart(int64_t tiles, int64_t wanted)
{
	const int64_t tilesOfEach = (tiles + wanted - 1) / wanted;
	return tilesOfEach > leastTiles ? tilesOfEach : leastTiles;
}
AUTOAMP_HOST_DEVICE constexpr int64_t partsWanted(int64_t k, int64_t matrices)
{
	const int64_t units = (k + tileWide - 1) / tileWide * matrices;
	const int64_t wanted = units > 0 ? unitsOfSums / units : 1;
	return wanted < 1 ? 1 : wanted < mostParts ? wanted : mostParts;
}
AUTOAMP_HOST_DEVICE constexpr int64_t partsOf(int64_t k, int64_t lines, int64_t matrices)
{
	const int64_t tiles = (lines + tileDeep - 1) / tileDeep, each = tilesOfPart(tiles, partsWanted(k, matrices));
	return (tiles + each - 1) / each;
}

// Exponents of the sums in the cast. The sums must hold 2^24 elements of an operand without a prediction, or with a
// wrong one.
constexpr int unpredictedExponent = -20, predictedShift = 13;

// Device table of predicted exponents. They are only predictions: collisions and races cost a recast, but never affect
// a result.
struct Prediction {
	uint64_t key; // 0: empty
	int32_t exponent[operands];
};
constexpr uint32_t predictionCount = 65536, predictionsPerBucket = 4;
// First slot of the bucket of a key. Bit 0 of every key is set, so it selects nothing.
AUTOAMP_HOST_DEVICE constexpr uint32_t bucketOf(uint64_t key)
{
	return static_cast<uint32_t>(key >> 1) % (predictionCount / predictionsPerBucket) * predictionsPerBucket;
}

// The loss check runs at the first two calls of a site, and at one call in 127. Settle counts the calls on the device,
// so that graph replays count. A check reads 8 more bytes per element, where the cast moves 6; this adds 1 % to all
// casts. 127 is a prime: if several layers share a site in turn, all of them are checked.
constexpr uint32_t checkedEvery = 127;

// Result of a loss check. excess: error that float16 adds to that of TF32, relative to the norm of the product; the
// largest of a batch. lostRows, lostColumns: lost rows and columns of op(A) op(B), in all checked matrices.
struct Loss {
	float excess;
	uint32_t lostRows, lostColumns;
};

enum class EventKind : uint32_t {
	init = 1,
	rescale,
	scale_range,
	overflow,
	nonfinite_input,
	underflow,
	clamped,
	mended,
	uncured,
	recast,  // a checked operand had changed; settle has converted it again
	changed, // a frozen operand had changed; the next call converts it again
	// Without totals in the ring; the payload is the whole event:
	update = 64, // an update of a gradient scaler
	audit,
};

// State of a gradient scaler. A part that it does not have is -1.
struct GradientState {
	float scale;
	int32_t tracker, hysteresis;
};

// One update of a gradient scaler. steps, skipped: all updates so far, and those with found_inf. They are counted on
// the device, so they stay exact if the ring wraps.
struct Update {
	GradientState before, after;
	float foundInf;
	uint32_t scaler; // index that the host gave the scaler
	uint32_t steps, skipped;
};

// Result of an audit: errors relative to the norm of the product, of its worst row, and of its worst column.
struct Audit {
	float error, worstRow, worstColumn;
	uint32_t flags;
};
// Bits of Audit::flags.
constexpr uint32_t auditRecomputed = 1, // compared with the application's own call in fp32
    auditPartial = 2,                   // lines with Inf or NaN were left out
    auditUnmeasured = 4,                // no line was finite; the error is NaN
    auditOverflow = 8;                  // a line of D has an Inf or NaN, but that of the reference has none

// Rare events reach the host through mapped host memory, which is read at later calls and at exit. A record is complete
// when `sequence`, which is written last, is its index + 1.
struct Event {
	uint64_t sequence;
	uint32_t site; // index that the host gave the site
	EventKind kind;
	uint32_t operand;      // 0 A, 1 B; for an audit, its number at this site
	int32_t before, after; // exponents; before is INT32_MIN at `init`. For an update: Probe::ticks, low half first
	uint32_t amax;         // bits
	union {
		Loss loss; // set for `underflow`, `mended` and `uncured`
		Update update;
		Audit audit;
	};
};
constexpr uint32_t ringSize = 4096;
// Exact totals per site, also after the ring wrapped: [site][operand][kind]. All sites without an entry share site 0.
constexpr uint32_t siteCount = 32768, kindCount = 12;
// Gradient scalers of a process whose updates come from the device.
constexpr uint32_t scalerCount = 256;
struct Ring {
	uint64_t written;
	Event events[ringSize];
	uint32_t totals[siteCount][operands][kindCount];
	uint32_t isUncured[siteCount]; // a strict product of the site was mended in vain
	// Observed operands. Only one thread of an observed call reads and writes a state across the bus.
	struct {
		WeightState state;
		WeightFacts facts;
	} weights[weightCount];
	// By Update::scaler. Only probes write it, in the order of the program's streams.
	struct {
		GradientState before; // at the latest probe before an update
		uint32_t steps, skipped;
	} scalers[scalerCount];
};

// One of the two probes around an update of a gradient scaler by the program. They run on the stream of the update. The
// first one stores the state, the second one reports the Update.
struct Probe {
	Ring *ring;
	const float *scale; // null: NaN
	const int32_t *tracker, *hysteresis;
	const void *foundInf;   // size: foundInfBytes; null: foundInfValue
	uint32_t foundInfBytes; // 4: float; 1: bool
	float foundInfValue;
	uint32_t scaler;
	bool isAfter;
	uint64_t ticks; // host time of the update's launch; 0 in a graph
};

// A captured call runs again with the same parameters, so only the totals show which run is the first. They are read
// across the bus; calls that do not need them do not read them.
enum class First : uint32_t { no, yes, askTotals };

// State of one site on the device. `clampedBy`: the highest number of a call that clamped this operand. All blocks of a
// call share its number, so that only one of them reports.
struct SiteState {
	unsigned long long clampedBy[operands];
	uint32_t calls;          // float16 calls settled in this context
	uint32_t isCheckedAgain; // the next call is checked too: a check is missing, or had no correct prediction
	uint32_t replays;        // captured calls that could be audited, in this context
	uint32_t audits;         // audits reported
};

// Destination of the events of a call.
struct Events {
	Ring *ring;       // device pointer to mapped host memory; null: no events
	SiteState *sites; // [siteCount]; null: no `clamped`, no loss checks
	uint32_t site;    // 1 … siteCount - 1; higher ones share the totals of 0 and have no single events
	uint64_t call;    // number of the call in the process; replays of a captured call have the number from the capture
};

// Copies of contiguous runs between float and bfloat16, as many as one launch takes. The data of an RNN is in many
// places.
constexpr int mostRuns = 118;
struct Runs : Events {
	struct {
		const void *source; // null: writes bfloat16 zeros
		void *target;
		int64_t count;
	} run[mostRuns];
	int32_t count;
	int32_t weights; // runs from this index on are operand B
	bool isWidening; // bfloat16 to float
	bool isAdded;    // adds to the target
};

// Parameters of every call that converts two operands.
struct Scaling : Events {
	Scratch *scratch;
	CastRecord *records; // one for each block of the cast
	uint32_t castBlocks;
	Prediction *predictions;   // null: scaling off
	uint64_t pairKey;          // hash of signature and both pointers; never 0
	uint64_t signatureKey;     // hash of the signature alone; never 0
	First first;               // the site's first call in this context reports `init` instead of `rescale`
	const float *alpha, *beta; // device pointers, or null: alphaValue and betaValue
	float alphaValue, betaValue;
	Kept kept[operands];     // how: none for the kernels that keep nothing
	KeptRecord *keptRecords; // one for each block of the cast; null: no settle follows
};

struct Parameters : Scaling {
	Operand operand[operands];
	ProbeSums *sums;            // sumCount(), 16-byte aligned; null: the loss is not checked
	bool isAlongRows[operands]; // k counts the operand's rows as stored
	Strict strict;              // memory of a strict call, which has no `sums`
};

// Number of sums: those along k for the matrices of each operand, in parts, and those for the lines of each product.
AUTOAMP_HOST_DEVICE inline int64_t sumCount(const Parameters &p)
{
	const int64_t products =
	    checkedMatrices(p.operand[0].batch > p.operand[1].batch ? p.operand[0].batch : p.operand[1].batch);
	int64_t count = 0;
	for (int i = 0; i < operands; ++i) {
		const int64_t k = p.isAlongRows[i] ? p.operand[i].rows : p.operand[i].columns;
		const int64_t lines = p.isAlongRows[i] ? p.operand[i].columns : p.operand[i].rows;
		const int64_t matrices = checkedMatrices(p.operand[i].batch);
		count += matrices * partsOf(k, lines, matrices) * k + products * lines;
	}
	return count;
}

// The loss of a convolution is not checked.
struct TensorParameters : Scaling {
	Tensor tensor[operands];
};

// Kernels, all extern "C". Their one parameter, by value, is a `Parameters` unless the list names another type.
//   autoamp_cast_half        A and B in one launch: x * 2^used -> half (RN), amax and non-finite flags. Each block
//                            looks up the prediction (pair key, else signature key, else 0) and writes a record; the
//                            blocks may find different predictions. If the loss is checked: sums with random signs
//   autoamp_cast_bfloat16    A and B in one launch: x -> bfloat16 (RN, but a finite x stays finite: it becomes at most
//                            the largest finite bfloat16, event `clamped`). With a scratch: beta to it
//   autoamp_settle           reads all records: right exponents, overflow flags, recast of the operands for which a
//                            block used a wrong prediction, alpha_eff and beta to the scratch, new predictions, events;
//                            counts the call. With predictions == null: alpha unchanged, no recast. If all blocks
//                            checked the loss: its result, which only causes an event. Any number of blocks
//   autoamp_mend             after the settle of a strict call: if the product needs it, converts both operands again
//                            with the shifts that settle has chosen, writes alpha, and measures what the product still
//                            loses. Else it returns. Any number of blocks
//   autoamp_cast_tensor_half, autoamp_cast_tensor_bfloat16, autoamp_settle_tensor
//                            the same for TensorParameters. The cast to bfloat16 writes alpha to the scratch, because
//                            the convolution reads it there for both types
//   autoamp_cast_kept_half, autoamp_cast_kept_bfloat16, autoamp_settle_kept_half, autoamp_settle_kept_bfloat16, and
//   with _tensor at the end: the same for calls with kept or observed operands (weights.cuh). A settle may follow the
//   cast to bfloat16, too
//   autoamp_place            a Placement
//   autoamp_round            a Rounded
//   autoamp_runs             a Runs: to bfloat16 (as autoamp_cast_bfloat16), or back
//   autoamp_scatter          a Scatter: the number of threads per column depends on its length
//   autoamp_sum              a Sum: a block computes some outputs at a time, always in the same order
//   autoamp_widen            a Scalars, one block
//   autoamp_watch            a Probe, one thread
constexpr uint32_t blockSize = 256;

// Tensors change layout tile by tile, through shared memory. A tile has the smallest power of two of rows that
// suffices, from 8 to 64.
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
