// The trace file, version 1, as structs: writer and reader both include it. docs/trace-format.md describes it. Plain
// data. Every number is little-endian; every struct has a fixed size that a version never changes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace autoamp::trace {

constexpr char kMagic[8] = {'a', 'u', 't', 'o', 'a', 'm', 'p', '\n'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kByteOrder = 0x01020304;
constexpr uint32_t kPage = 4096;             // chunks begin at multiples of it
constexpr uint32_t kChunkMagic = 0x6b434141; // "AACk"
constexpr uint32_t kMaxChunk = 1u << 20;
constexpr uint32_t kEventChunk = 64u << 10, kRecordChunk = 16u << 10;
constexpr uint32_t kMaxString = 4096;   // longer strings are truncated
constexpr uint32_t kMaxRows = 1u << 16; // limit of the writer; an event has 20 bits for its row
constexpr uint32_t kRowLimit = 1u << 20;

using Counter = std::atomic<uint64_t>;
static_assert(sizeof(Counter) == 8 && Counter::is_always_lock_free);

struct ClockPair {
	uint64_t ticks, monotonicNs;
};

enum class End : uint32_t { open, exited, exitedWith };

// The reason why single events, or all new records, are no longer recorded.
// sizeLimit: RLIMIT_FSIZE or the limit of the file system.
enum class Stopped : uint64_t { no, diskFull, sizeCap, unwritable, sizeLimit };

// The `autoamp run` commands that a process descends from: the innermost and the outermost if they are nested. 0: none.
struct RunIds {
	uint64_t inner = 0, outer = 0;
	// Whether a process with these ids was started by that command, or by a command that it started.
	constexpr bool isPartOf(uint64_t run) const { return inner == run || outer == run; }
};

// The end of a process, from the wait status that `autoamp run` received.
enum class Ended : uint32_t { unknown, exited, signalled, dumpedCore };

// Facts that `autoamp run` adds to the header after the program ended.
struct Conclusion {
	uint32_t processes = 0; // processes that began a trace in this run; 0: unknown
	Ended ended = Ended::unknown;
	int32_t value = 0;     // exit status or signal
	uint32_t oomKills = 0; // processes that the kernel killed in the run's cgroup meanwhile, because memory ran out
};

// Offset 0.
struct Header {
	char magic[8];
	uint32_t version, byteOrder;
	uint32_t headerSize;   // offset of the first chunk
	uint32_t flags;        // see below
	int64_t startedNs;     // CLOCK_REALTIME at `first`
	ClockPair first, last; // both give the rate of the ticks; `last` is updated while the process lives
	uint32_t pid, parent;
	std::atomic<uint32_t> end; // End
	int32_t status;
	Counter fileSize;  // end of the last chunk that has a place in the file
	Counter lostCalls; // calls in no total: the disk was full at the first call of their row
	Counter stopped;   // Stopped
	RunIds run;
	uint64_t job; // equal for all processes of one job: run.outer, or jobOf(); 0: an older writer
	// Zero in traces of older writers.
	uint32_t number; // this process among those of run.inner that began a trace, from 1; 0: unknown
	uint32_t reserved;
	Conclusion conclusion;
	uint64_t reserved2;
};
static_assert(sizeof(Header) == 160);

// Header::flags
constexpr uint32_t headerEmulated = 1, headerSingles = 2, headerWritten = 4, headerTail = 8, headerIsTail = 16,
                   headerForked = 32; // forked from a process that had a trace

// Kinds of notes that are not failures; all other kinds are. noteOfPlan: a cuDNN plan built for the first call of a
// signature. noteOfKernels, noteOfScaler: the reason why kernels or scaler events are not recorded. noteOfRange: the
// reason why a capture range cannot begin. noteOfRefused: the mangled name of a kernel that the emulated device could
// not run; its count is the number of launches. noteOfAudit: the reason why calls of a row were not audited.
// noteOfGradient: the reason why values of a gradient scaler of the program are not recorded. noteOfLayout: the mangled
// name of a kernel of such a scaler with unknown parameters.
constexpr const char *noteOfPlan = "plan_built", *noteOfKernels = "kernels_off", *noteOfRange = "range_unseen",
                     *noteOfRefused = "not_emulated", *noteOfScaler = "scaler_off", *noteOfAudit = "audit_skipped",
                     *noteOfGradient = "gradient_off", *noteOfLayout = "scaler_layout_unknown";

enum class ChunkKind : uint32_t { records = 1, events = 2, kernels = 3 };

struct Chunk {
	uint32_t magic;
	ChunkKind kind;
	uint32_t size;     // size of the whole chunk, a multiple of kPage
	uint32_t lane;     // lane of the events
	Counter committed; // bytes from the chunk's beginning that are valid
	Counter order;     // sequence() and number()
	// Chunks are begun in this order. Their order in the file can differ.
	uint32_t sequence() const { return static_cast<uint32_t>(order.load(std::memory_order_relaxed)); }
	// From 1, per kind, and for events per lane: a gap means a missing chunk. 0: written by an older version.
	uint32_t number() const { return static_cast<uint32_t>(order.load(std::memory_order_relaxed) >> 32); }
};
static_assert(sizeof(Chunk) == 32);

// A single event: two words. packed: row 20 bits, flags 4, duration 40 (ticks, saturating).
struct Event {
	uint64_t start;
	uint64_t packed;
};
static_assert(sizeof(Event) == 16);
constexpr uint32_t kEventsInChunk = (kEventChunk - sizeof(Chunk)) / sizeof(Event);

constexpr uint32_t eventCaptured = 1; // flags of an event

constexpr uint64_t kMaxDuration = (uint64_t{1} << 40) - 1;
constexpr uint64_t packEvent(uint32_t row, unsigned flags, uint64_t duration)
{
	return (uint64_t{row} << 44) | (uint64_t{flags & 15} << 40) | (duration < kMaxDuration ? duration : kMaxDuration);
}

// One kernel or copy of the device, in chunks of kind `kernels`. Times: ns since Header::first.
struct Kernel {
	uint64_t startNs, endNs;
	uint64_t call;      // lane << 32 | 1 + the index of its event in that lane; 0: none. kernelUpdate: its scaler
	uint32_t name, row; // name: string; row 0: not from an intercepted call
	uint32_t stream;    // CUPTI's stream number
	uint16_t device, flags;
};
static_assert(sizeof(Kernel) == 40);
constexpr uint32_t kKernelsInChunk = (kEventChunk - sizeof(Chunk)) / sizeof(Kernel);

// Kernel::flags; ours, memory and emulated are also in KernelTotalRecord::flags. ours: converts operands for a call.
// outside: known not to be from an intercepted call; without this flag, row 0 means unknown. update: it updates a
// gradient scaler (OwnedGradientScalerRecord::owner).
constexpr uint16_t kernelOurs = 1, kernelMemory = 2, kernelGraph = 4, kernelOutside = 8, kernelEmulated = 16,
                   kernelUpdate = 32;

// Records: in chunks of kind `records`. size: bytes of the whole record, a multiple of 8. Unknown types are skipped.
enum class RecordType : uint16_t {
	padding,
	string,
	property,
	row,
	lane,
	cells,
	scaler,
	scalerTotal,
	note,
	kernelTotal,
	kernelLoss,
	clock,
	cuptiOverhead,
	capture,
	kernelLaunches,
	gradientScaler,
	gradientEvent,
	gradientCause,
	audit,
	weights,
};

struct Record {
	RecordType type;
	uint16_t reserved;
	uint32_t size;
};

struct StringRecord : Record {
	uint32_t id, length; // then the bytes. Ids begin at 1; 0 is "".
};

struct PropertyRecord : Record {
	uint32_t group, name, value, origin; // strings
};

// The fields of a row that writer and reader copy without a conversion: texts of RowRecord, numbers, texts of the
// longer records.
#define AUTOAMP_ROW_TEXTS(X)                                                                                           \
	X(entry)                                                                                                           \
	X(library)                                                                                                         \
	X(op)                                                                                                              \
	X(caller)                                                                                                          \
	X(dtypeIn)                                                                                                         \
	X(dtypeAsked)                                                                                                      \
	X(dtypeCompute)                                                                                                    \
	X(dtypeAccumulate)                                                                                                 \
	X(dtypeOut)                                                                                                        \
	X(decision)                                                                                                        \
	X(reason)                                                                                                          \
	X(strategy)
#define AUTOAMP_ROW_NUMBERS(X) X(m) X(n) X(k) X(batch) X(device) X(transa) X(transb)
#define AUTOAMP_ROW_ADDED_TEXTS(X) X(region, RegionRowRecord) X(shape, RegionRowRecord) X(cause, CauseRowRecord)

struct RowRecord : Record {
	uint32_t id, site; // site: see docs
#define X(field) uint32_t field;
	AUTOAMP_ROW_TEXTS(X)
#undef X
	int64_t m, n, k, batch;
	float estNs, estLoweredNs; // negative: unknown
	uint16_t device;
	char transa, transb;
	uint32_t flags; // see below
};
static_assert(sizeof(RowRecord) == 112);

// A longer RowRecord, for calls in a region or with a geometry. A reader that needs neither can ignore the added
// fields.
struct RegionRowRecord : RowRecord {
	uint32_t region, shape; // strings
};
static_assert(sizeof(RegionRowRecord) == 120);

// A still longer one, for calls with a cause of the reason.
struct CauseRowRecord : RegionRowRecord {
	uint32_t cause, reserved2; // string
};
static_assert(sizeof(CauseRowRecord) == 128);

// RowRecord::flags. counted: its cells only have `calls`, and it has no single events.
constexpr uint32_t rowEligible = 1, rowCounted = 2;
constexpr uint16_t kNoDevice = 0xffff; // RowRecord::device: not known

// One per thread at a time. A new thread takes over the lane of a thread that has ended.
struct alignas(64) LaneRecord : Record {
	uint32_t lane, tid;
	Counter mark;    // the row of the call in flight, 0: none
	Counter dropped; // single events that were not recorded
	uint64_t reserved2[4];
};
static_assert(sizeof(LaneRecord) == 64);

struct Cell {
	Counter row; // 0: not used yet
	Counter calls, captured, ticks;
};
static_assert(sizeof(Cell) == 32);

// Totals of one lane: whole cache lines, so that threads do not share them.
struct alignas(64) CellsRecord : Record {
	uint32_t lane, count;
	uint64_t reserved2[6];
	Cell *cells() { return reinterpret_cast<Cell *>(this + 1); } // `count` cells
	const Cell *cells() const { return reinterpret_cast<const Cell *>(this + 1); }
};
static_assert(sizeof(CellsRecord) == 64);

struct ScalerRecord : Record {
	uint64_t ticks;
	uint32_t row, kind; // kind: string
	float exponentBefore, exponentAfter, amax;
	uint32_t operand; // 'A', 'B'
};

// A ScalerRecord of this length belongs to a loss check.
struct LossRecord : ScalerRecord {
	float excess; // error that float16 adds to that of TF32, relative to the norm of the product
	uint32_t lostRows, lostColumns, reserved2;
};

struct ScalerTotalRecord : Record {
	uint32_t row, kind, operand, reserved2;
	Counter count;
};

struct NoteRecord : Record {
	uint32_t kind, text, row, reserved2;
	uint64_t firstTicks;
	Counter lastTicks, count;
};

// All kernels with one name on one device, launched by calls of one row.
struct KernelTotalRecord : Record {
	uint32_t row, name;
	uint16_t device, flags;
	uint32_t reserved2;
	Counter count, ns;       // ns: for kernels with valid times
	Counter firstNs, lastNs; // start of the first and the latest one; 0: none
};
static_assert(sizeof(KernelTotalRecord) == 56);

// One per file if kernels are recorded.
struct KernelLossRecord : Record {
	Counter unattributed; // kernels whose launch was not seen
	Counter invalid;      // kernels with impossible times: in `count`, not in `ns`
	Counter dropped;      // kernels that CUPTI reported as lost: not counted elsewhere
	Counter singles;      // kernels in the totals that are not recorded individually
};

// One moment on every clock, recorded each second. Kernel times come from CUPTI's clock; realtimeNs aligns machines.
struct ClockRecord : Record {
	uint64_t ticks, monotonicNs, realtimeNs;
	uint64_t cuptiNs; // 0: there is no CUPTI
};
static_assert(sizeof(ClockRecord) == 40);

// CUPTI's own overhead, one record per kind.
struct CuptiOverheadRecord : Record {
	uint32_t kind, flags; // string; kernelEmulated
	Counter count, ns;
};
static_assert(sizeof(CuptiOverheadRecord) == 32);

// One per file if the configuration limits the calls to record.
struct CaptureRecord : Record {
	Counter outside; // calls that were not to be recorded: not counted elsewhere
	Counter begun;   // number of times that the range began
};

// One per file with kernels: launches seen by the process, and those that CUPTI has returned. The first two count
// kernels launched individually, the others launches of graphs. A graph counts as received with its first kernel.
struct LaunchRecord : Record {
	Counter launched, received;
	Counter graphs, graphsReceived;
};
static_assert(sizeof(LaunchRecord) == 40);

// A gradient scaler of the program. The counters from `steps` to `holds` and the scales are totals over all updates.
struct GradientScalerRecord : Record {
	uint32_t id, framework; // framework: string
	uint32_t number;        // among the scalers of its framework, from 0
	uint32_t how;           // string: where the values come from
	uint32_t device;
	uint32_t interval;      // 0: unknown, like NaN below
	double growth, backoff; // factors
	Counter steps, skipped; // updates, and those with found_inf
	Counter longestSkipped; // largest number of skipped steps in a row
	Counter growths, backoffs, sets, refusals, holds;
	Counter scaleFirst, scaleLeast, scaleMost, scaleLast; // bits of doubles
	Counter tracker;                                      // the last one; as i64, -1: unknown
	Counter firstTicks, lastTicks;
	Counter unseen; // steps without values: they are only in `steps` and `skipped`
};
static_assert(sizeof(GradientScalerRecord) == 176);

// Added later: files of an older version lack it.
struct OwnedGradientScalerRecord : GradientScalerRecord {
	uint32_t owner; // Kernel::call of its updates; 0: none
	uint32_t reserved2;
	Counter lastSkip, skipTicks; // step and time of the latest skipped step; 0: none, or unknown
};
static_assert(sizeof(OwnedGradientScalerRecord) == 200);

struct GradientEventRecord : Record {
	uint64_t ticks, step; // step: from 1
	uint32_t scaler;      // GradientScalerRecord::id
	uint32_t kind;        // string
	double scaleBefore, scaleAfter, foundInf;
	int32_t trackerBefore, trackerAfter, hysteresis; // -1: unknown
	uint32_t reserved2;
};
static_assert(sizeof(GradientEventRecord) == 72);

// A scaler event of an operand (ScalerRecord) that preceded a skipped step, and followed the step before it.
struct GradientCauseRecord : Record {
	uint64_t ticks, step; // ticks: time of the scaler event
	uint32_t scaler, row, kind, operand;
};
static_assert(sizeof(GradientCauseRecord) == 40);

// Measured errors of the calls of one row. Bits of f64 in a Counter: NaN or 0 before the first.
constexpr uint32_t kErrorBuckets = 64; // histogram: bucket i has errors below 2^((i - 47) / 2), the last one all others
struct AuditRecord : Record {
	uint32_t row, reserved2;
	Counter audited;                          // audits that completed, in all: their number is exact
	Counter lost;                             // audits whose result did not reach the host
	Counter recomputed;                       // compared with the application's own call in fp32
	Counter unmeasured;                       // without a finite line: no error; not in the numbers below
	Counter partial;                          // lines with Inf or NaN were left out
	Counter overflowed;                       // results with an Inf or NaN that the fp32 result does not have
	Counter sum, most, worstRow, worstColumn; // bits of f64: relative errors
	Counter histogram[kErrorBuckets];
};
static_assert(sizeof(AuditRecord) == 16 + 8 * 10 + 8 * kErrorBuckets);

// A longer one, for calls that were also computed in fp32 on the host.
struct TimedAuditRecord : AuditRecord {
	Counter timed;            // audits with both times
	Counter fp32Ns, actualNs; // sums over these calls: in fp32, and as they ran
};
static_assert(sizeof(TimedAuditRecord) == sizeof(AuditRecord) + 24);

// Kept copies of converted operands, for the calls of one row: one record for each pair of `how` and `reason`.
struct WeightsRecord : Record {
	uint32_t row, how; // how: string, the way by which changes of the operand are noticed; "": not kept
	uint32_t reason;   // string: why the operand is not kept; "": it is
	uint32_t reserved2;
	Counter served;    // products that used a kept copy
	Counter converted; // products that converted the operand
	Counter made;      // copies made
	Counter recast;    // copies made again because the operand had changed
	Counter givenUp;   // copies dropped for good
	Counter bytes;     // largest memory of the copies at one time: those made, without those given up
};
static_assert(sizeof(WeightsRecord) == 24 + 8 * 6);

// A longer one; files of an older version lack it.
struct ComparedWeightsRecord : WeightsRecord {
	Counter changed;  // products after which a weight of AUTOAMP_WEIGHTS=frozen differed from its copy
	Counter refused;  // copies that found no memory; `bytes`: the memory that they would need
	Counter compared; // conversions whose fingerprint was compared with that of the conversion before
	Counter repeated; // those of them that were equal
};
static_assert(sizeof(ComparedWeightsRecord) == sizeof(WeightsRecord) + 8 * 4);

} // namespace autoamp::trace
