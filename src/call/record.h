// Records one call in the trace: the mark of the call in flight, its time and its row. Used by the calling thread only.
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

	// Records the outcome of a lowering: done, or the reason why not, and the autoamp step that failed.
	void setOutcome(const lower::Outcome &outcome);
	// Records a call that ran unchanged.
	void finish(const DescribedCall &described, op::Status status);

private:
	Process &process_;
	trace::Lane *lane_;
	Rows &rows_;
	std::optional<Span> span_;
};

} // namespace autoamp::core
