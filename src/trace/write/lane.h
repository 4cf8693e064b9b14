// The part of the trace that one thread writes without a lock. Only the thread that attached the lane uses it. Nothing
// here uses the heap. Only functions marked "rare" take the lock of the recorder or make system calls.
#pragma once

#include "src/base/clock.h"
#include "src/base/pages.h"
#include "src/trace/write/content.h"
#include "src/trace/write/counter.h"

#include <atomic>
#include <cstddef>

namespace autoamp::trace {

class Recorder;

// The thread's totals and single events, and the mark of its call in flight.
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
			addCall(*cell, duration * weight, captured);
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
	static void addCall(Cell &cell, uint64_t durationTicks, bool captured)
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

} // namespace autoamp::trace
