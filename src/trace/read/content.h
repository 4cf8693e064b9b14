// Content of a trace as reports see it. Plain data.
#pragma once

#include "src/trace/format.h"
#include "src/trace/read/kernel_name.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace autoamp::trace {

// Strings that the writer left out are "", numbers it did not know are NaN: both null in a report.

struct PropertyInfo {
	std::string name, value, origin;
};

// Measured errors of audited calls, relative to the norm of the results (AuditRecord).
struct AuditInfo {
	uint64_t audited = 0, lost = 0, recomputed = 0, unmeasured = 0, partial = 0, overflowed = 0;
	double sum = 0, most = 0, worstRow = 0, worstColumn = 0;
	uint64_t histogram[kErrorBuckets] = {};
	uint64_t timed = 0;              // calls that were also computed in fp32 and timed
	double fp32Ns = 0, actualNs = 0; // sums over these calls: in fp32, and as they ran

	// Audits with an error.
	uint64_t measured() const
	{
		uint64_t count = 0;
		for (const uint64_t each : histogram)
			count += each;
		return count;
	}
	void add(const AuditInfo &other)
	{
		audited += other.audited, lost += other.lost, recomputed += other.recomputed;
		unmeasured += other.unmeasured, partial += other.partial, overflowed += other.overflowed;
		sum += other.sum, most = std::fmax(most, other.most);
		worstRow = std::fmax(worstRow, other.worstRow), worstColumn = std::fmax(worstColumn, other.worstColumn);
		timed += other.timed, fp32Ns += other.fp32Ns, actualNs += other.actualNs;
		for (uint32_t i = 0; i < kErrorBuckets; ++i)
			histogram[i] += other.histogram[i];
	}
	double orUnknown(double value) const { return measured() ? value : NAN; }
	// The error that this share of the measured calls does not exceed, within a factor of 2^(1/4); NaN: no error.
	double quantile(double share) const;
};

// Kept copies of converted operands (WeightsRecord).
struct WeightsInfo {
	std::string how, reason; // reason: why the operand is not kept; "": it is
	uint64_t served = 0, converted = 0, made = 0, recast = 0, givenUp = 0, bytes = 0;
	uint64_t changed = 0, refused = 0, compared = 0, repeated = 0; // 0 in older traces
};

struct RowInfo {
	uint32_t id = 0;  // events refer to it
	std::string site; // eight hex digits
	std::string entry, library, op, caller, region, shape, cause;
	std::string dtypeIn, dtypeAsked, dtypeCompute, dtypeAccumulate, dtypeOut;
	std::string decision, reason, strategy;
	int64_t m = 0, n = 0, k = 0, batch = 1;
	char transa = 'N', transb = 'N';
	uint32_t device = 0;
	bool eligible = false;
	bool isCounted = false;     // only `calls` is known
	double estNs, estLoweredNs; // NaN: unknown
	// The same with the best strategy, and the precision of that strategy. A report adds both; NaN and "": unknown.
	double estBestNs = NAN;
	double estCheckedNs = NAN; // a call with AUTOAMP_WEIGHTS=checked; only if the row has fingerprints of weights_off
	std::string bestPrecision;
	uint64_t calls = 0, captured = 0;
	double hostNs = 0;
	// Device times if kernels were recorded; NaN: unknown or emulated. kernelNs: without autoamp's conversions.
	double kernelNs, castNs;
	uint64_t kernels = 0, casts = 0;                // number of kernels and conversions
	TensorCores tensorCores = TensorCores::unknown; // from the names of its kernels
	struct Part {                                   // the share of one lane
		uint32_t lane;
		uint64_t calls;
		double hostNs;
	};
	std::vector<Part> parts;
	AuditInfo audit;
	std::vector<WeightsInfo> weights; // one for each pair of `how` and `reason`
	// Calls that the vendor library refused have computed nothing.
	double flops() const
	{
		const bool isWork = m > 0 && n > 0 && k > 0 && batch > 0 && reason != "bad_argument";
		const double each = dtypeIn.starts_with("complex") ? 8.0 : 2.0; // four products of parts, and their sums
		return isWork ? each * double(m) * double(n) * double(k) * double(batch) * double(calls) : 0.0;
	}
};

struct ScalerInfo {
	double timeNs = 0; // since the start of the trace
	std::string kind, site;
	uint32_t row = 0;
	char operand = 'A';
	double scaleBefore, scaleAfter, amax; // NaN: unknown
	// Size of an `underflow`; NaN for other kinds and in older traces.
	double excess = NAN, lostRows = NAN, lostColumns = NAN;
};

struct ScalerTotal {
	std::string kind, site;
	uint32_t row = 0;
	char operand = 'A';
	uint64_t count = 0; // exact; the single events are capped
};

struct NoteInfo {
	std::string kind, text;
	uint32_t row = 0;
	uint64_t count = 0;
	double firstNs = 0, lastNs = 0;
};

// All kernels with one name on one device, launched by calls of one row.
struct KernelTotal {
	std::string name; // mangled; or "[memcpy HtoD]"
	uint32_t row = 0; // 0: not from an intercepted call
	uint32_t device = 0;
	bool isOurs = false, isMemory = false; // autoamp's conversion; a copy or fill
	uint64_t count = 0;
	double ns, firstNs,
	    lastNs; // sum; start of the first and the latest; NaN: unknown (no valid time) or emulated
	KernelFacts facts;
};

// Activity of the program's own gradient scaler, derived from its kernels.
struct ObservedScaler {
	std::string framework, step; // torch, paddle, apex; unscale (and look for Inf), update (the scale)
	uint64_t count = 0;
	double firstNs, lastNs; // NaN: unknown, or emulated
};

// A gradient scaler of the program, and totals over its updates. NaN: unknown.
struct GradientScalerInfo {
	uint32_t id = 0;  // GradientEvent::scaler
	std::string name; // torch#0
	std::string how;  // update_kernel, unscale_kernel, python, autoamp
	uint32_t device = 0;
	double growth, backoff;                                          // factors
	uint32_t interval = 0;                                           // 0: unknown
	uint64_t steps = 0, skipped = 0, longestSkipped = 0, unseen = 0; // unseen: steps without values
	uint64_t growths = 0, backoffs = 0, sets = 0, refusals = 0, holds = 0;
	double scaleFirst, scaleLeast, scaleMost, scaleLast;
	int64_t tracker = -1;           // -1: unknown
	double firstNs = 0, lastNs = 0; // times of the first and the latest update
	uint32_t owner = 0;             // KernelInfo::updatedOwner of its updates; 0: none
	double lastSkippedNs = 0;       // NaN: there is none, or it is unknown
	uint64_t lastSkippedStep = 0;
	bool hasDeviceTimes = false; // times of updates are those of their kernels, otherwise of their launches
};

struct GradientEvent {
	double timeNs = 0; // since the start of the trace
	uint64_t step = 0;
	uint32_t scaler = 0;
	std::string kind; // first, growth, backoff, set, growth_refused, hold
	double scaleBefore, scaleAfter, foundInf;
	int32_t trackerBefore, trackerAfter, hysteresis; // -1: unknown
};

// A scaler event (ScalerInfo) after which the scaler skipped its next step.
struct GradientCauseInfo {
	double timeNs = 0; // time of the scaler event
	uint64_t step = 0;
	uint32_t scaler = 0, row = 0;
	std::string kind;
	char operand = 'A';
};

// CUPTI's own overhead.
struct OverheadInfo {
	std::string kind; // buffer_flush, resource, …: CUpti_ActivityOverheadKind
	uint64_t count = 0;
	double ns; // NaN: emulated
};

struct ClockInfo {
	double traceNs;                            // since the start of the trace
	uint64_t monotonicNs, realtimeNs, cuptiNs; // cuptiNs 0: there was no CUPTI
};

struct LaneInfo {
	uint32_t lane = 0, tid = 0;
	uint32_t inFlight = 0; // row, 0: none
};

struct Loss {
	uint64_t eventsDropped = 0;       // single events: beyond the size cap, or without space
	uint64_t callsLost = 0;           // calls that are in no total
	uint64_t kernelsUnattributed = 0; // kernels with an unknown launcher
	uint64_t invalidTimestamps = 0;   // kernels that are counted but not timed
	uint64_t kernelsDropped = 0;      // kernels lost by CUPTI
	uint64_t kernelsCapped = 0;       // in the totals, not among the single kernels
	// Launched, but never returned by CUPTI, by cause: the process was killed, recording ended early, or they had
	// not finished at exit.
	enum Cause { killed, switchedOff, unfinished, causes };
	uint64_t kernelsExpected = 0, kernelsMissing[causes] = {}; // without the kernels of graphs
	uint64_t graphsMissing[causes] = {};                       // launches without a returned kernel
	uint64_t eventsMissing = 0;        // recorded, but the file was truncated or replaced afterwards
	uint64_t singleKernelsMissing = 0; // single kernels: likewise
	bool diskFull = false;
	bool sizeLimit = false;   // the file reached a limit of file sizes, such as `ulimit -f`
	bool unwritable = false;  // the file could not be written to the end: removed, replaced, or not reachable
	bool tailMissing = false; // the writer was killed, and there is no tail with the newest events and totals
	bool truncated = false;   // single events are missing, or the file is shorter than its writer made it
};

// For traces that were not to record all calls.
struct CaptureInfo {
	uint64_t outside = 0; // calls that were not recorded
	uint64_t begun = 0;   // number of times that the range began
};

// Launches that the process saw, and those whose kernels CUPTI returned; a graph is received with its first kernel.
struct LaunchInfo {
	uint64_t kernels = 0, kernelsReceived = 0; // outside of graphs
	uint64_t graphs = 0, graphsReceived = 0;
};

// One single event, with times since the start of the trace.
struct EventInfo {
	uint32_t row, lane;
	bool captured;
	double startNs, durationNs;
	uint64_t call; // equals KernelInfo::call of its kernels
};

// One kernel, with times since the start of the trace. Times of an emulated device have no meaning.
struct KernelInfo {
	const std::string &name;
	uint32_t row, device, stream;
	uint64_t call;         // EventInfo::call; 0: none
	uint32_t updatedOwner; // GradientScalerInfo::owner; 0: not an update
	bool isOurs, isMemory, isGraph, isOutside;
	double startNs, durationNs;
};

} // namespace autoamp::trace
