// The time of one call, from its start to its row in the trace: the mark of the call in flight, the clock, the counter.
// The calling thread's.
#pragma once

#include "src/base/clock.h"
#include "src/base/faults.h"
#include "src/trace/recorder.h"

namespace autoamp::core {

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

} // namespace autoamp::core
