// Writer of the trace, used by the core while the application runs. Format: docs/trace-format.md. Recorder: any thread.
// Lane: only the thread that attached it. Nothing here throws, prints (except through base/log) or uses the heap. Only
// functions marked "rare" take the lock or make system calls. errno is preserved.
#pragma once

#include "src/base/clock.h"
#include "src/base/pages.h"
#include "src/trace/file.h"
#include "src/trace/format.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <pthread.h>
#include <span>

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
	const char *kind = nullptr; // init, rescale, underflow, scale_range, overflow, nonfinite_input, clamped
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

class Recorder;

// The part of the trace that one thread writes without a lock: its totals, its single events and the mark of its call
// in flight.
class Lane
{
public:
	// The totals of a row, valid as long as the file; null: no space, and calls of the row are counted as lost.
	Cell *cell(RowId row) { return __builtin_expect(row < cellCount_ && cells_[row], 1) ? cells_[row] : newCell(row); }
	// Hot path: about 3 ns. Does nothing in summary mode. flags: 4 bits, see format.h.
	void event(RowId row, uint64_t startTicks, uint64_t durationTicks, unsigned flags)
	{
		if (next_ == end_ && !newChunk())
			return;
		next_->start = startTicks;
		next_->packed = packEvent(row, flags, durationTicks);
		++next_;
		chunk_->committed.store(reinterpret_cast<char *>(next_) - reinterpret_cast<char *>(chunk_),
		                        std::memory_order_release);
	}
	// Kernel::call for kernels of the next event.
	uint64_t nextCall() const
	{
		const uint64_t here = chunk_ ? static_cast<uint64_t>(next_ - (end_ - kEventsInChunk)) : 0;
		return uint64_t{number_} << 32 | (eventsBefore_ + here + 1);
	}
	// Number of calls that the time of this row's next call represents; 0: do not read the clock. Without single
	// events, one in 16 frequent calls is timed: the clock costs more than everything else here.
	[[gnu::always_inline]] unsigned timing(const Cell *cell) const
	{
		if (singles_ || !cell)
			return 1;
		const uint64_t calls = cell->calls.load(std::memory_order_relaxed);
		if (calls < kTimedCalls)
			return 1;
		// Evenly spread, and without a period that a program's loops could have.
		return calls * 0x9e3779b97f4a7c15 >> 60 == 0 ? 16 : 0;
	}
	// Shortened record() for the two usual cases: a call that timing() leaves untimed, and a single event. Returns
	// false in other cases.
	[[gnu::always_inline]] bool recordShort(Cell &cell, RowId row, uint64_t startTicks, bool captured, unsigned weight)
	{
		if (weight == 0) {
			add(cell.calls, 1);
		} else if (singles_ && next_ != end_) {
			const uint64_t endTicks = base::ticks(), duration = endTicks > startTicks ? endTicks - startTicks : 0;
			add(cell.calls, 1);
			add(cell.ticks, duration);
			event(row, startTicks, duration, captured ? eventCaptured : 0);
		} else {
			return false;
		}
		if (__builtin_expect(captured, 0))
			add(cell.captured, 1);
		return true;
	}
	// Counts one call of a row that is only counted.
	static void count(Cell &cell) { add(cell.calls, 1); }
	// Records totals and event. weight: the result of timing(); if it is 0, the times do not matter.
	void record(RowId row, uint64_t startTicks, uint64_t endTicks, bool captured, unsigned weight = 1)
	{
		record(cell(row), row, startTicks, endTicks, captured, weight);
	}
	void record(Cell *cell, RowId row, uint64_t startTicks, uint64_t endTicks, bool captured, unsigned weight)
	{
		const uint64_t duration = endTicks > startTicks ? endTicks - startTicks : 0;
		if (__builtin_expect(cell != nullptr, 1))
			add(*cell, duration * weight, captured);
		else
			lose();
		if (singles_)
			event(row, startTicks, duration, captured ? eventCaptured : 0);
	}

	// Records the call in flight, which will not return: it is counted with no time.
	void leaveCall()
	{
		const auto row = static_cast<RowId>(lane_->mark.exchange(0, std::memory_order_relaxed));
		if (const uint64_t now = base::ticks(); row)
			record(row, now, now, false);
	}

private:
	friend class Recorder;
	friend class InFlight;
	static constexpr uint64_t kTimedCalls = 64;
	static void add(Counter &value, uint64_t more)
	{
		// One writer: no locked instruction needed.
		value.store(value.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
	}
	static void add(Cell &cell, uint64_t durationTicks, bool captured)
	{
		add(cell.calls, 1);
		add(cell.ticks, durationTicks);
		if (captured)
			add(cell.captured, 1);
	}
	Cell *newCell(RowId row); // rare, like the next two functions, unless the trace has stopped
	void lose();
	bool newChunk();

	Cell **cells_ = nullptr; // by RowId; in cellTable_
	uint32_t cellCount_ = 0;
	bool singles_ = false;
	Event *next_ = nullptr, *end_ = nullptr;
	Chunk *chunk_ = nullptr;
	LaneRecord *lane_ = &none_;
	Recorder *recorder_ = nullptr;

	base::Array<Cell *> cellTable_;
	CellsRecord *block_ = nullptr; // block of the next cell
	uint32_t blockUsed_ = 0;
	uint32_t number_ = 0, eventsBefore_ = 0; // number of the lane; events in earlier chunks
	bool free_ = false;                      // no thread uses it
	Lane *nextLane_ = nullptr;
	LaneRecord none_ = {}; // used while there is no file
};

// Marks the call in flight of this thread, so that a report can contain `died inside cublasLtMatmul`. Nests: the
// destructor restores the outer mark. The row must be in the file before: get its cell first.
class InFlight
{
public:
	[[gnu::always_inline]] InFlight(Lane &lane, RowId row)
	    : mark_(lane.lane_->mark), outer_(mark_.load(std::memory_order_relaxed))
	{
		mark_.store(row, std::memory_order_relaxed);
	}
	~InFlight() { mark_.store(outer_, std::memory_order_relaxed); }
	InFlight(const InFlight &) = delete;
	InFlight &operator=(const InFlight &) = delete;

private:
	std::atomic<uint64_t> &mark_;
	uint64_t outer_;
};

// One per process, never destroyed. All functions are rare; none of them is for the hot path.
class Recorder
{
public:
	constexpr Recorder() = default;

	// Creates the file. Called at the first intercepted call, once per process (and again in a forked child). If it
	// returns false, there is one line in the log, and the functions below have no effect.
	bool open(const Options &options);
	// Called at exit. The memory stays valid, because other threads may still count calls. No rows are added
	// afterwards. `status` negative: unknown.
	void close(int status);
	bool isOpen() const { return file_.state() == File::State::open; }
	const char *path() const { return file_.path(); } // "" before open

	// Finds or creates a row; also before open(). Cache the result: this function hashes strings under the lock.
	RowId row(const Row &row);
	// Gives the calling thread a lane (null only if memory is short). detach() releases it when the thread ends;
	// another thread can then get it.
	Lane *attach();
	void detach(Lane *lane);

	// Adds a property of the run; also before open(), and kept for forked children. group: run | argument | config |
	// version | device (name: the ordinal). origin: source of a config value. open() itself adds exe, program, host,
	// rank and the command line.
	void property(const char *group, const char *name, const char *value, const char *origin = "");
	// Counts an event exactly per site, operand and kind. The first 64 of each are also recorded as single events.
	void scaler(const ScalerEvent &event);
	// Records an autoamp failure as text ("engine_failed", "cublasLtMatmul status 13"); equal notes are counted. Also
	// for notes that are not failures, such as noteOfPlan with the build time.
	void note(const char *kind, const char *text, RowId row = 0, uint64_t count = 1);

	// Records kernels, in Mode::kernels: totals and, up to the size cap, single kernels. One thread at a time.
	void kernels(std::span<const KernelEvent> events, const KernelLosses &losses);
	// Records CUPTI's own overhead, in Mode::kernels. One thread at a time.
	void overhead(const char *kind, uint64_t ns, bool isEmulated);
	// Records the time on all clocks; cuptiNs: the current CUPTI time. Returns ns since the start of the trace.
	uint64_t clock(uint64_t cuptiNs);

	// Adds calls that were not intercepted: they are in no total.
	void addLost(uint64_t calls);
	// Counters for traces that do not record all calls, one record per file. Null: no file. Any thread may use the
	// counters until a fork.
	CaptureRecord *capture();
	// Counters of kernel launches, in Mode::kernels. Null: there is no file. Any thread, until a fork.
	LaunchRecord *launches();

	// Around fork(2), from the fork handlers of the core. `own`: the lane of the forking thread, may be null. It and
	// all row ids stay valid; the file does not: the child opens its own file at its first call.
	void beforeFork();
	void afterForkInParent();
	void afterForkInChild(Lane *own);

private:
	friend class Lane;
	struct Text {
		uint32_t id, length, written; // written: the generation of the file that contains it
		char bytes[1];
	};
	struct KnownRow {
		CauseRowRecord record;
		uint32_t written;
	};
	struct Property {
		uint32_t group, name, value, origin;
	};
	struct KnownScaler {
		uint32_t row, kind, operand, written;
		uint64_t singles;
		ScalerTotalRecord *total;
	};
	struct KnownNote {
		uint32_t kind, text, row, written;
		NoteRecord *record;
	};
	struct KnownKernel {
		uint32_t row, name, place, written; // place: device and flags
		KernelTotalRecord *total;
	};
	struct KnownOverhead {
		uint32_t kind, written;
		CuptiOverheadRecord *record;
	};
	class Lock;

	// All of these need the lock.
	bool makeFile(const Options &options);
	Chunk *beginChunk(char *memory, ChunkKind kind, uint64_t size, uint32_t lane, uint32_t number);
	bool openRecords(uint64_t need);
	template <class T>
	T *append(RecordType type, size_t more = 0);
	void commit();
	uint32_t intern(const char *text);
	bool writeText(uint32_t id);
	bool writeRow(RowId row);
	void writeProperty(const Property &property);
	void addProperty(const char *group, const char *name, const char *value, const char *origin);
	bool writeLane(Lane &lane);
	bool addCell(Lane &lane, RowId row);
	bool newChunk(Lane &lane);
	Chunk *nextChunk(Chunk *chunk, ChunkKind kind, uint32_t lane);
	void addKernel(const KernelEvent &event, bool isSingle);

	pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
	File file_;
	std::atomic<bool> isCapped_ = false;
	bool singles_ = false;
	bool isNew_ = false;      // something was recorded since the last flush
	uint32_t generation_ = 0; // counts the files of this process
	uint32_t lanesMade_ = 0;
	uint32_t chunksMade_ = 0;
	Chunk *records_ = nullptr;
	uint64_t recordsEnd_ = 0; // end of the newest record in the chunk
	base::Arena arena_;
	base::Array<Text *> texts_;
	base::Array<KnownRow *> rows_;
	base::Array<Property> properties_;
	base::Index<Text> textIndex_;
	base::Index<KnownRow> rowIndex_;
	base::Index<KnownScaler> scalerIndex_;
	base::Index<KnownNote> noteIndex_;
	base::Index<KnownKernel> kernelIndex_;
	KnownOverhead overheads_[16] = {}; // kind 0: not used yet
	Chunk *kernels_ = nullptr;         // chunk of the next single kernel
	KernelLossRecord *kernelLoss_ = nullptr;
	Lane *lanes_ = nullptr;
};

} // namespace autoamp::trace
