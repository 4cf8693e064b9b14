// The writing half of the trace: what the core tells while the application runs. Format: docs/trace-format.md.
// Recorder: any thread. Lane: the one thread that attached it. Nothing here throws, prints (but through base/log) or
// uses the heap; only what is marked "rare" takes the lock or makes system calls. errno is left as it was.
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
	const char *(*lookup)(const char *) = nullptr; // getenv, for %q{VAR} and the rank; null: nothing is set
	bool emulated = false;
};

// What one `ops` row of the report says besides its totals. Words are interned by content and copied: they need to live
// only for the call. Null words become "" (null in the report).
struct Row {
	const char *entry = nullptr, *library = nullptr, *op = nullptr;
	int64_t m = 0, n = 0, k = 0, batch = 1;
	char transa = 'N', transb = 'N'; // N, T, C
	const char *dtypeIn = nullptr, *dtypeAsked = nullptr, *dtypeCompute = nullptr, *dtypeAccumulate = nullptr,
	           *dtypeOut = nullptr;
	const char *decision = nullptr, *reason = nullptr, *strategy = nullptr;
	const char *caller = nullptr; // object file
	const char *region = nullptr; // the innermost that has a name
	const char *cause = nullptr;  // mode, variable or feature behind the reason
	const char *shape = nullptr;  // where m, n, k and batch do not say it
	bool eligible = false;        // fp32 data and a lower form exists
	bool isCounted = false;       // by Lane::count() alone
	uint16_t device = 0;
	float estNs = -1, estLoweredNs = -1; // negative: unknown
};

using RowId = uint32_t; // 0: no row. Valid for the life of the process, in forked children too.

struct ScalerEvent {
	const char *kind = nullptr; // init, rescale, underflow, scale_range, overflow, nonfinite_input, clamped
	RowId row = 0;              // the site is the row's
	char operand = 'A';
	float exponentBefore = 0, exponentAfter = 0; // log2 of the scale; NaN: unknown
	float amax = 0;
	float excess = -1; // size of an `underflow`: error added by float16, relative to the product; negative: none
	uint32_t lostRows = 0, lostColumns = 0; // valid if excess is not negative
	uint64_t ticks = 0;                     // base::ticks(); 0: now
	uint64_t count = 1;                     // how many of its kind are counted
	bool isSingle = true;                   // false: counted only, the fields above mean nothing
};

// One kernel or copy that the device has run, as format.h says it; flags among them. `name` is copied.
struct KernelEvent {
	uint64_t startNs = 0, endNs = 0; // since clock() was first asked; both 0: not known
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

// What one thread writes to without any lock: its totals, its single events and the mark of its call in flight.
class Lane
{
public:
	// The totals of a row, for the life of the file; null: there is no room, its calls are counted as lost.
	Cell *cell(RowId row) { return __builtin_expect(row < cellCount_ && cells_[row], 1) ? cells_[row] : newCell(row); }
	// Hot path: some 3 ns. Does nothing in summary mode. flags: 4 bits, see format.h.
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
	// What the next event will be to a kernel, Kernel::call.
	uint64_t nextCall() const
	{
		const uint64_t here = chunk_ ? static_cast<uint64_t>(next_ - (end_ - kEventsInChunk)) : 0;
		return uint64_t{number_} << 32 | (eventsBefore_ + here + 1);
	}
	// How many calls the time of this row's next call stands for; 0: do not read the clock. Without single events a
	// call that was made often is timed one time in 16: the clock costs more than all else here.
	[[gnu::always_inline]] unsigned timing(const Cell *cell) const
	{
		if (singles_ || !cell)
			return 1;
		const uint64_t calls = cell->calls.load(std::memory_order_relaxed);
		if (calls < kTimedCalls)
			return 1;
		// Evenly spread, and in step with no pattern that a program's loops could have.
		return calls * 0x9e3779b97f4a7c15 >> 60 == 0 ? 16 : 0;
	}
	// The two usual ways of record(), without what they do not need: a call that timing() leaves untimed, and a single
	// event. False: neither.
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
	// One call of a row of which nothing else is known.
	static void count(Cell &cell) { add(cell.calls, 1); }
	// Totals and event. weight: what timing() answered; for 0 the times do not matter.
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

	// The call in flight will not return: it counts, and has no time.
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
	Cell *newCell(RowId row); // rare, as is what follows, unless the trace stopped
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
	CellsRecord *block_ = nullptr; // where the next cell comes from
	uint32_t blockUsed_ = 0;
	uint32_t number_ = 0, eventsBefore_ = 0; // its number; events in the chunks before this one
	bool free_ = false;                      // no thread has it
	Lane *nextLane_ = nullptr;
	LaneRecord none_ = {}; // stands in while there is no file
};

// The call in flight of this thread, so that a report can say `died inside cublasLtMatmul`. Nests: restores. Its row
// must be in the file before that call: ask for the cell first.
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

// One a process, never destroyed. All of it is rare, none of it is for the hot path.
class Recorder
{
public:
	constexpr Recorder() = default;

	// Makes the file; at the first intercepted call, once a process (and again in a forked child). False: one line in
	// the log, and everything below does nothing.
	bool open(const Options &options);
	// At exit; the file keeps its place in memory because other threads may still be counting. No call after it adds
	// a row. `status` negative: unknown.
	void close(int status);
	bool isOpen() const { return file_.state() == File::State::open; }
	const char *path() const { return file_.path(); } // "" before open

	// Finds or makes a row; before open() too. Cache the answer: this hashes strings under the lock.
	RowId row(const Row &row);
	// A lane for the calling thread (null only without memory), and back when the thread ends: the next thread gets it.
	Lane *attach();
	void detach(Lane *lane);

	// One line about the run; before open() too, kept for forked children. group: run | argument | config | version |
	// device (name: the ordinal). Config: origin says which layer. open() itself adds exe, program, host, rank and the
	// command line.
	void property(const char *group, const char *name, const char *value, const char *origin = "");
	// Counted exactly a site, operand and kind; the first 64 of them also as single events.
	void scaler(const ScalerEvent &event);
	// Something of ours that failed, in words ("engine_failed", "cublasLtMatmul status 13"); equal ones are counted.
	// And what is no failure: noteOfPlan, with the time it took.
	void note(const char *kind, const char *text, RowId row = 0, uint64_t count = 1);

	// What the device did, in Mode::kernels: totals and, up to the size cap, each. One thread at a time.
	void kernels(std::span<const KernelEvent> events, const KernelLosses &losses);
	// What CUPTI took for itself, in Mode::kernels. One thread at a time.
	void overhead(const char *kind, uint64_t ns, bool isEmulated);
	// Writes down what the clocks say; cuptiNs: what CUPTI's said just now. The answer: ns since the trace's beginning.
	uint64_t clock(uint64_t cuptiNs);

	// Calls that went by unseen: in no total.
	void addLost(uint64_t calls);
	// Where not all calls are to be recorded: what is counted of that, once a file. Null: there is none. The counters
	// are any thread's until a fork.
	CaptureRecord *capture();
	// Counters of kernel launches, in Mode::kernels. Null: there is no file. Any thread, until a fork.
	LaunchRecord *launches();

	// Around fork(2), from the front's atfork handlers. `own`: the lane of the forking thread, may be null; it and all
	// row ids stay valid, the file does not: the child opens its own at its first call.
	void beforeFork();
	void afterForkInParent();
	void afterForkInChild(Lane *own);

private:
	friend class Lane;
	struct Text {
		uint32_t id, length, written; // written: the generation whose file has it
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

	// All of these: under the lock.
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
	Chunk *kernels_ = nullptr;         // where the next single kernel goes
	KernelLossRecord *kernelLoss_ = nullptr;
	Lane *lanes_ = nullptr;
};

} // namespace autoamp::trace
