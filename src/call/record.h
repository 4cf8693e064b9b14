// What happened to one call, told to the trace: the mark of the call in flight, its time, its row. The calling
// thread's.
#pragma once

#include "src/call/described_call.h"
#include "src/call/span.h"
#include "src/site/rows.h"
#include "src/state/thread.h"

#include <optional>

namespace autoamp::core {

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
