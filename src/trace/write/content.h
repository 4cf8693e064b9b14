// Content of a trace as the core hands it to the recorder. Plain data.
#pragma once

#include <cmath>
#include <cstdint>

namespace autoamp::trace {

enum class Mode : uint8_t { off, summary, ops, kernels };

struct Options {
	Mode mode = Mode::summary;
	const char *pattern = nullptr; // AUTOAMP_TRACE_FILE; null or empty: <dir>/%e.%t.%p.aat, and <dir> is pruned
	const char *dir = "";          // AUTOAMP_DIR, resolved
	uint64_t maxSize = 256u << 20; // AUTOAMP_TRACE_MAX_SIZE
	const char *(*lookup)(const char *) = nullptr; // like getenv, for %q{VAR} and the rank; null: nothing is set
	bool emulated = false;
};

// Content of one `ops` row of the report, except its totals. Strings are interned by content and copied: they must be
// valid only during the call. Null strings become "" (null in the report).
struct Row {
	const char *entry = nullptr, *library = nullptr, *op = nullptr;
	int64_t m = 0, n = 0, k = 0, batch = 1;
	char transa = 'N', transb = 'N'; // N, T, C
	const char *dtypeIn = nullptr, *dtypeAsked = nullptr, *dtypeCompute = nullptr, *dtypeAccumulate = nullptr,
	           *dtypeOut = nullptr;
	const char *decision = nullptr, *reason = nullptr, *strategy = nullptr;
	const char *caller = nullptr; // object file
	const char *region = nullptr; // innermost named region
	const char *cause = nullptr;  // mode, variable or feature behind the reason
	const char *shape = nullptr;  // if m, n, k and batch do not describe the shape
	bool eligible = false;        // on fp32 data and with a lower-precision form
	bool isCounted = false;       // only counted, by Lane::count()
	uint16_t device = 0;
	float estNs = -1, estLoweredNs = -1; // negative: unknown
};

using RowId = uint32_t; // 0: no row. Valid for the life of the process, in forked children too.

struct ScalerEvent {
	const char *kind = nullptr; // docs/reports.md lists them
	RowId row = 0;              // row of the event's site
	char operand = 'A';
	float exponentBefore = 0, exponentAfter = 0; // log2 of the scale; NaN: unknown
	float amax = 0;
	float excess = -1; // size of an `underflow`: error added by float16, relative to the product; negative: none
	uint32_t lostRows = 0, lostColumns = 0; // valid if excess is not negative
	uint64_t ticks = 0;                     // base::ticks(); 0: now
	uint64_t count = 1;                     // number of events that this one stands for
	bool isSingle = true;                   // false: only counted; the fields above have no meaning
};

// Result of an audit: errors relative to the norm of the result, of its worst row, and of its worst column.
struct AuditResult {
	RowId row = 0;
	uint64_t number = 1;                             // of audits since the last result, with this one
	double error = 0, worstRow = 0, worstColumn = 0; // NaN: no line was finite
	bool isRecomputed = false, isPartial = false, hasOverflowed = false; // as in AuditRecord
	// Host times of the call in fp32 and as it ran, without the audit; fp32Ns 0: not measured.
	uint64_t fp32Ns = 0, actualNs = 0;
};

// Events of kept operands since the last report of this row, `how` and `reason` (WeightsRecord).
struct WeightCounts {
	RowId row = 0;
	const char *how = nullptr;    // checked, frozen, watched, fingerprint; null: not kept
	const char *reason = nullptr; // why the operand is not kept; null: it is
	uint64_t served = 0, converted = 0, made = 0, recast = 0, givenUp = 0;
	uint64_t changed = 0, refused = 0, compared = 0, repeated = 0; // as in ComparedWeightsRecord
	uint64_t bytes = 0;         // size of the copy that was used, made, given up or refused
	uint64_t held = UINT64_MAX; // made: size of all copies; UINT64_MAX: unknown
};

// A gradient scaler of the program. The first three fields identify it.
struct GradientScaler {
	const char *framework = nullptr; // torch, paddle, …
	uint64_t identity = 0;           // such as the address of its scale
	uint16_t device = 0;
	const char *how = nullptr;          // update_kernel, unscale_kernel, python, autoamp: where the values come from
	double growth = NAN, backoff = NAN; // factors; NaN: unknown
	uint32_t interval = 0;              // 0: unknown
	uint32_t owner = 0;                 // KernelEvent::call of its updates; 0: none
};

struct GradientState {
	double scale = NAN;                    // NaN: unknown
	int32_t tracker = -1, hysteresis = -1; // -1: unknown
};

// One update of a gradient scaler.
struct GradientUpdate {
	GradientState before, after;
	double foundInf = 0;             // 0: the step was not skipped
	uint64_t steps = 0, skipped = 0; // totals with this update; steps 0: the writer counts
	uint64_t ticks = 0;              // base::ticks(); 0: now
};

// A scaler event between this update and the one before it.
struct GradientCause {
	RowId row = 0;
	const char *kind = nullptr;
	char operand = 'A';
	uint64_t ticks = 0; // that of the ScalerEvent
};

// One kernel or copy that the device has run, with fields and flags as in format.h. `name` is copied.
struct KernelEvent {
	uint64_t startNs = 0, endNs = 0; // on the clock of Recorder::clock(); both 0: unknown
	uint64_t call = 0;
	const char *name = nullptr;
	RowId row = 0;
	uint32_t stream = 0;
	uint16_t device = 0, flags = 0;
};

struct KernelLosses {
	uint64_t unattributed = 0, invalid = 0, dropped = 0;
};

} // namespace autoamp::trace
