// What happened to one call, told to the trace: the mark of the call in flight, its time, its row. The calling thread's.
#pragma once

#include "src/base/clock.h"
#include "src/core/site.h"
#include "src/core/subject.h"
#include "src/core/thread.h"

#include <optional>
#include <utility>

namespace autoamp::core {

class Record
{
public:
	static constexpr unsigned samplePeriod = 16;

	Record(Process &process, Thread &thread, Site &site) : process_(process), lane_(thread.lane), site_(site)
	{
		if (!lane_)
			return;
		mark_.emplace(*lane_, rowOf(process, site));
		// Two reads of the clock cost more than all the rest of a call that is passed through: where there are no
		// single events, such a call is timed by a sample and counts for those in between.
		const bool isSampled = process.isSummary && site.decision.verdict != policy::Verdict::lowered;
		if (isSampled && ++thread.untimed < samplePeriod)
			return;
		weight_ = isSampled ? std::exchange(thread.untimed, 0) : 1;
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
		if (!weight_)
			lane_->count(row, 0, isCaptured);
		else if (process_.isSummary)
			lane_->count(row, (base::ticks() - start_) * weight_, isCaptured);
		else
			lane_->record(row, start_, base::ticks(), isCaptured);
	}

	Process &process_;
	trace::Lane *lane_;
	Site &site_;
	uint64_t start_ = 0;
	unsigned weight_ = 0; // calls that this one's time stands for; 0: not timed
	std::optional<trace::InFlight> mark_;
};

} // namespace autoamp::core
