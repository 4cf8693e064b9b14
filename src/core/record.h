// What happened to one call, told to the trace: the mark of the call in flight, its time, its row. The calling thread's.
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
	Record(Process &process, Thread &thread, Site &site) : process_(process), lane_(thread.lane), site_(site)
	{
		if (lane_) {
			mark_.emplace(*lane_, rowOf(process, site));
			start_ = base::ticks();
		}
	}
	Record(const Record &) = delete;
	Record &operator=(const Record &) = delete;

	// Of a lowered call: done, or why not; and which step of ours failed on the way.
	void tell(const reroute::Outcome &outcome);
	// Of a call that ran as it was asked.
	void finish(const Subject &subject, op::Status status);

private:
	void write(trace::RowId row, bool isCaptured)
	{
		lane_->record(row, start_, base::ticks(), isCaptured);
	}

	Process &process_;
	trace::Lane *lane_;
	Site &site_;
	uint64_t start_ = 0;
	std::optional<trace::InFlight> mark_;
};

} // namespace autoamp::core
