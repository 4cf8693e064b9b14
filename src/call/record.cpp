#include "src/call/record.h"

#include "src/base/log.h"
#include "src/life/weight_events.h"

#include <cstdio>

namespace autoamp::core {

void Record::setOutcome(const lower::Outcome &outcome)
{
	trace::RowId row = 0;
	if (lane_ && outcome.isSubstitute)
		row = substituteRowOf(process_, rows_, outcome.reason);
	else if (lane_ && outcome.failed)
		row = outcome.isDone ? rowOf(process_, rows_) : fallbackRowOf(process_, rows_, outcome.reason);
	if (outcome.failed) {
		char text[128];
		std::snprintf(text, sizeof text, outcome.code ? "%s status %d" : "%s", outcome.failed, outcome.code);
		base::log(base::LogLevel::info, "%s: %s", policy::name(outcome.reason), text);
		if (lane_)
			process_.recorder.note(policy::name(outcome.reason), text, row);
	}
	if (outcome.unaudited && lane_)
		process_.recorder.note(trace::noteOfAudit, outcome.unaudited, rowOf(process_, rows_));
	if (outcome.builtNs && lane_) {
		char text[32];
		std::snprintf(text, sizeof text, "%.3f ms", static_cast<double>(outcome.builtNs) / 1e6);
		process_.recorder.note(trace::noteOfPlan, text, rowOf(process_, rows_));
	}
	noteUnreported(*rows_.site, outcome);
	if (lane_)
		recordWeights(process_, rows_, outcome.isSubstitute ? row : rowOf(process_, rows_), outcome);
	if (!outcome.isDone || !lane_)
		return;
	span_->exclude(outcome.auditTicks);
	if (outcome.isSubstitute)
		span_->endAs(row, outcome.isCaptured);
	else
		span_->end(outcome.isCaptured);
}

void Record::finish(const DescribedCall &described, op::Status status)
{
	if (!lane_)
		return;
	trace::RowId row;
	if (!rows_.site->decision.isUnchanged())
		row = fallbackRowOf(process_, rows_, described.obstacle);
	else if (described.hasHandleFailed && status == 0)
		row = fallbackRowOf(process_, rows_, policy::Reason::engine_failed);
	else
		row = rowOf(process_, rows_);
	if (described.failed && row != rowOf(process_, rows_))
		process_.recorder.note(policy::name(policy::Reason::engine_failed), described.failed, row);
	span_->endAs(row, described.isCaptured);
}

} // namespace autoamp::core
