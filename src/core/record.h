// What happened to one call, told to the trace: the mark of the call in flight, its time, its row. The calling
// thread's.
#pragma once

#include "src/base/clock.h"
#include "src/base/faults.h"
#include "src/core/site.h"
#include "src/core/subject.h"
#include "src/core/thread.h"

#include <optional>

namespace autoamp::core {

// From a call's start to its row.
class Span
{
public:
	[[gnu::always_inline]] Span(trace::Lane &lane, trace::RowId row, trace::Cell *cell)
	    : lane_(lane), cell_(cell), row_(row), mark_(lane, row), weight_(lane.timing(cell)),
	      start_(weight_ ? base::ticks() : 0)
	{
	}
	[[gnu::always_inline]] void end(bool isCaptured) const
	{
		if (!cell_ || !lane_.recordShort(*cell_, row_, start_, isCaptured, weight_))
			lane_.record(cell_, row_, start_, base::ticks(), isCaptured, weight_);
		tellAnyFaults();
	}
	void endAs(trace::RowId row, bool isCaptured) const
	{
		lane_.record(row, start_, weight_ ? base::ticks() : 0, isCaptured, weight_);
		tellAnyFaults();
	}

private:
	static void tellAnyFaults()
	{
		if (__builtin_expect(base::hasFaults.load(std::memory_order_relaxed), 0))
			tellFaults();
	}
	static void tellFaults(); // of whichever call: they belong to no row

	trace::Lane &lane_;
	trace::Cell *cell_;
	trace::RowId row_;
	trace::InFlight mark_;
	unsigned weight_; // calls that this one's time stands for; 0: not timed
	uint64_t start_;
};

class Record
{
public:
	Record(Process &process, const Thread &thread, Rows &rows, bool isRecorded)
	    : process_(process), lane_(isRecorded ? thread.lane : nullptr), rows_(rows)
	{
		if (lane_) {
			const trace::RowId row = rowOf(process, rows);
			span_.emplace(*lane_, row, lane_->cell(row));
		}
	}
	Record(const Record &) = delete;
	Record &operator=(const Record &) = delete;

	// Of a lowered call: done, or why not; and which step of ours failed on the way.
	void tell(const reroute::Outcome &outcome);
	// Of a call that ran as it was asked.
	void finish(const Subject &subject, op::Status status);

private:
	Process &process_;
	trace::Lane *lane_;
	Rows &rows_;
	std::optional<Span> span_;
};

} // namespace autoamp::core
