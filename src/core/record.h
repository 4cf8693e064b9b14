// What happened to one call, told to the trace: the mark of the call in flight, its time, its row. The calling
// thread's.
#pragma once

#include "src/base/clock.h"
#include "src/core/site.h"
#include "src/core/subject.h"
#include "src/core/thread.h"

#include <optional>

namespace autoamp::core {

class Record
{
public:
	Record(Process &process, const Thread &thread, Site &site) : process_(process), lane_(thread.lane), site_(site)
	{
		if (!lane_)
			return;
		const trace::RowId row = rowOf(process, site);
		mark_.emplace(*lane_, row);
		weight_ = lane_->timing(row);
		if (weight_)
			start_ = base::ticks();
	}
	Record(const Record &) = delete;
	Record &operator=(const Record &) = delete;

	// Of a lowered call: done, or why not; and which step of ours failed on the way.
	void tell(const reroute::Outcome &outcome);
	// Of a call that ran as it was asked.
	void finish(const Subject &subject, op::Status status);

private:
	void tellFaults();
	void write(trace::RowId row, bool isCaptured)
	{
		lane_->record(row, start_, weight_ ? base::ticks() : 0, isCaptured, weight_);
	}

	Process &process_;
	trace::Lane *lane_;
	Site &site_;
	uint64_t start_ = 0;
	unsigned weight_ = 0; // calls that this one's time stands for; 0: not timed
	std::optional<trace::InFlight> mark_;
};

} // namespace autoamp::core
