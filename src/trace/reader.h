// The reading half of the trace: a file as values, whatever state its writer left it in. Format: docs/trace-format.md.
// One Trace is used by one thread at a time. Never crashes on, nor believes the sizes of, a damaged file.
#pragma once

#include "src/trace/format.h"
#include "src/trace/kernel_name.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace autoamp::trace {

// Strings that the writer left out are "", numbers it did not know are NaN: both null in a report.

struct PropertyInfo {
	std::string name, value, origin;
};

struct RowInfo {
	uint32_t id = 0;  // what events refer to
	std::string site; // eight hex digits
	std::string entry, library, op, caller, region, shape, cause;
	std::string dtypeIn, dtypeAsked, dtypeCompute, dtypeAccumulate, dtypeOut;
	std::string decision, reason, strategy;
	int64_t m = 0, n = 0, k = 0, batch = 1;
	char transa = 'N', transb = 'N';
	uint32_t device = 0;
	bool eligible = false;
	bool isCounted = false;     // only `calls` is known of it
	double estNs, estLoweredNs; // NaN: unknown
	uint64_t calls = 0, captured = 0;
	double hostNs = 0;
	// Of the device, where kernels were recorded; NaN: unknown, or emulated. kernelNs: without our conversions.
	double kernelNs, castNs;
	uint64_t kernels = 0, casts = 0;                // how many there were
	TensorCores tensorCores = TensorCores::unknown; // what the names of its kernels say
	struct Part {                                   // what one lane counted of it
		uint32_t lane;
		uint64_t calls;
		double hostNs;
	};
	std::vector<Part> parts;
	// Of calls that the vendor refuses nothing was computed.
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

// All kernels of one name on one device that one row's calls launched.
struct KernelTotal {
	std::string name; // as the compiler mangled it; "[memcpy HtoD]"
	uint32_t row = 0; // 0: of no intercepted call
	uint32_t device = 0;
	bool isOurs = false, isMemory = false; // our conversion; a copy or fill
	uint64_t count = 0;
	double ns, firstNs,
	    lastNs; // sum, when the first and the latest began; NaN: unknown (no time is valid), or emulated
	KernelFacts facts;
};

// What the program's own gradient scaler did, by the kernels it launched.
struct ObservedScaler {
	std::string framework, step; // torch, paddle, apex; unscale (and look for Inf), update (of the scale)
	uint64_t count = 0;
	double firstNs, lastNs; // NaN: unknown, or emulated
};

// What CUPTI took for itself.
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
	uint64_t eventsDropped = 0;       // single events: over the cap, or no room
	uint64_t callsLost = 0;           // calls that are in no total
	uint64_t kernelsUnattributed = 0; // nobody knows who launched them
	uint64_t invalidTimestamps = 0;   // kernels that are counted but not timed
	uint64_t kernelsDropped = 0;      // CUPTI lost them
	uint64_t kernelsCapped = 0;       // in the totals, not among the single kernels
	// Launched, but never returned by CUPTI, by cause: the process was killed, recording was switched off, or they had
	// not finished at exit.
	enum Cause { killed, switchedOff, unfinished, causes };
	uint64_t kernelsExpected = 0, kernelsMissing[causes] = {}; // without the kernels of graphs
	uint64_t graphsMissing[causes] = {};                       // launches of which no kernel was returned
	uint64_t eventsMissing = 0;        // recorded, but the file was truncated or replaced afterwards
	uint64_t singleKernelsMissing = 0; // likewise
	bool diskFull = false;
	bool unwritable = false;  // the file could not be written to the end: removed, replaced, or not reachable
	bool tailMissing = false; // the writer was killed, and there is no tail with the newest events and totals
	bool truncated = false;   // single events are missing, or the file is shorter than its writer made it
};

// Where not all calls were to be recorded.
struct CaptureInfo {
	uint64_t outside = 0; // calls that were not
	uint64_t begun = 0;   // how often the range was
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
	uint64_t call; // what its kernels call it
};

// One kernel, with times since the start of the trace: of an emulated device they mean nothing.
struct KernelInfo {
	const std::string &name;
	uint32_t row, device, stream;
	uint64_t call; // EventInfo::call; 0: none
	bool isOurs, isMemory, isGraph, isOutside;
	double startNs, durationNs;
};

class Trace
{
public:
	// The file's content, or nothing and why not ("FILE: not an autoamp trace").
	static std::optional<Trace> open(const std::string &path, std::string &error);

	std::string path;
	uint32_t pid = 0, parentPid = 0;
	RunIds run;             // of `autoamp run`
	uint32_t number = 0;    // among the processes of run.inner that began a trace, from 1; 0: unknown
	Conclusion conclusion;  // added by `autoamp run`; includes the end of the process that it started
	bool isForked = false;  // from a process that had a trace
	double startedNs = 0;   // CLOCK_REALTIME
	std::string ended;      // "exit 0", "exit" (status unknown), "running", "killed" (inside a call), "no exit
	                        // seen" (killed elsewhere, _exit, exec)
	std::string diedInside; // entry of the call in flight when it was killed; "" if none
	bool emulated = false, hasEvents = false;
	bool hasKernels = false;              // what the device did was recorded, perhaps nothing
	std::string host, rank, exe, program; // program: the script's name for an interpreter; rank "": none
	std::string ranks, job;               // how many ranks there are, the id of their job; "": unknown
	uint64_t jobNumber = 0;               // Header::job
	std::vector<std::string> command;
	std::vector<PropertyInfo> config, rules, versions; // in the order written
	std::vector<std::string> devices;                  // by ordinal
	std::vector<int> capabilities;                     // theirs: 90 for sm_90; 0: it does not say
	std::vector<RowInfo> rows;                         // one a signature and decision; some have no calls: skip those
	std::vector<ScalerInfo> scaler;
	std::vector<ScalerTotal> scalerTotals;
	std::vector<NoteInfo> notes;
	std::vector<KernelTotal> kernels;
	std::vector<ObservedScaler> observed;
	std::vector<OverheadInfo> overhead;
	std::vector<ClockInfo> clocks;
	std::vector<LaneInfo> lanes;
	std::optional<CaptureInfo> capture;
	std::optional<LaunchInfo> launches; // nothing: kernels were not recorded, or by an older version
	Loss loss;

	const RowInfo *row(uint32_t id) const;
	// Every single event, reading one chunk at a time; those of one lane in the order they were recorded.
	void forEachEvent(const std::function<void(const EventInfo &)> &visit) const;
	// Every single kernel, in no order.
	void forEachKernel(const std::function<void(const KernelInfo &)> &visit) const;

private:
	Trace() = default;
	struct Loader;
	struct Place { // of a chunk
		uint32_t sequence, number;
		uint64_t offset;
		uint32_t bytes, lane;
		std::string content; // a chunk in the tail: the writer may reuse its place
	};
	const std::string &text(uint32_t id) const;
	size_t read(const Place &chunk, char *out) const; // `out`: kMaxChunk bytes
	template <class T, class Visit>
	void forEachIn(const std::vector<Place> &chunks, Visit visit) const;
	std::vector<Place> chunks_, kernelChunks_; // of single events and kernels
	std::unordered_map<uint32_t, std::string> texts_;
	std::vector<uint32_t> rowIndex_; // id -> index + 1
	double nsPerTick_ = 0;
	uint64_t firstTicks_ = 0;
	struct File {
		int descriptor = -1;
		File() = default;
		File(File &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
		File &operator=(File &&other) noexcept
		{
			std::swap(descriptor, other.descriptor);
			return *this;
		}
		~File();
	} file_;
};

// Moves the tail's content to the trace, if the trace has a tail and its writer has ended. True: the trace needs no
// tail.
bool foldTail(const std::string &path);

// Adds to a trace's header what `autoamp run` knows. False: the trace is still being written, or needs its tail.
bool conclude(const std::string &path, const Conclusion &conclusion);

// A living process writes this trace.
bool isBeingWritten(const std::string &path);

// The header's process, without reading the rest.
struct Writer {
	uint32_t pid = 0;
	int64_t startedNs = 0;
	RunIds run;
};

std::optional<Writer> writerOf(const std::string &path);
// The ids alone; nothing: not a trace.
std::optional<RunIds> runIdsOf(const std::string &path);

// FILE and the files that other processes of its run wrote next to it because it existed: name.aat, name.1.aat,
// name.2.aat … A file that is not a readable trace may be part of any run: it is included.
std::vector<std::string> family(const std::string &path);

} // namespace autoamp::trace
