// Times one call and counts it in its trace row. Marks the call as in flight meanwhile. Used by the calling thread
// only.
#pragma once

#include "src/base/clock.h"
#include "src/base/faults.h"
#include "src/trace/write/recorder.h"

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
		recordAnyFaults();
	}
	// Time of this thread during the call that is not part of it.
	void exclude(uint64_t ticks)
	{
		if (weight_)
			start_ += ticks;
	}
	void endAs(trace::RowId row, bool isCaptured) const
	{
		lane_.record(row, start_, weight_ ? base::ticks() : 0, isCaptured, weight_);
		recordAnyFaults();
	}

private:
	static void recordAnyFaults()
	{
		if (__builtin_expect(base::hasFaults.load(std::memory_order_relaxed), 0))
			recordFaults();
	}
	static void recordFaults(); // faults of any call: they do not belong to a row

	trace::Lane &lane_;
	trace::Cell *cell_;
	trace::RowId row_;
	trace::InFlight mark_;
	unsigned weight_; // number of calls that this time represents; 0: not timed
	uint64_t start_;
};

} // namespace autoamp::core
