#include "src/call/dispatch.h"

#include "src/call/described_call.h"
#include "src/call/record.h"
#include "src/life/fork.h"
#include "src/life/launches.h"
#include "src/life/libraries.h"
#include "src/life/scaler.h"
#include "src/place/capture_range.h"
#include "src/place/policy_context.h"
#include "src/site/site.h"
#include "src/state/thread.h"

namespace autoamp {

using policy::Reason, policy::Verdict;

template <typename Call>
op::Status dispatch(core::Process &process, const op::Entry &entry, const Door &door, const Call &call,
                    const Original &original)
{
	core::Thread *const thread = core::thisThread(process);
	if (!thread)
		return original();
	const core::CallerAnswer caller = core::callerOf(*thread, door.caller);
	if (caller.kind == core::CallerKind::vendor) // NVIDIA's libraries chose fp32 deliberately
		return original();
	if (process.isForked.load(std::memory_order_relaxed))
		core::reopenTrace(process);
	core::meet(process, entry.library, door.truth);

	// Describe the call.
	const core::CaptureCall captured(*thread);
	const core::Asking asking = {
	    process, *thread, entry, door, caller, core::contextOf(*thread), captured.isRecorded()};
	core::Subject subject = core::describe(asking, call);
	// The decision was made at the first call of the signature and never changes.
	core::Site &site = *subject.site;
	core::Record record(process, *thread, *subject.rows, asking.isRecorded && !subject.isCounted);
	core::Launches launches(process, *thread, *subject.rows, asking.isRecorded);

	// Lower the call. If an obstacle appears before C is written, the call runs unchanged.
	if (subject.obstacle == Reason::count && !site.decision.isAsAsked()) {
		reroute::Outcome outcome = core::lower(asking, subject, site.decision, call);
		if (site.decision.substitute != policy::Strategy::fp32 && !outcome.isDone &&
		    policy::isShortage(outcome.reason)) {
			launches.substitute(process, *subject.rows, outcome.reason);
			outcome = core::substitute(asking, subject, call, outcome);
		}
		record.tell(outcome);
		if (outcome.isDone) {
			core::drainScalerEvents(process);
			return outcome.status;
		}
		subject.obstacle = outcome.reason;
		subject.isCaptured = outcome.isCaptured;
		launches.fallBack(process, *subject.rows, subject.obstacle);
		if (subject.refusal && outcome.code)
			subject.refusal = outcome.code;
	}
	const op::Status status = subject.refusal ? subject.refusal : original();

	// Record the outcome.
	record.finish(subject, status);
	return status;
}

#define FOR(Call)                                                                                                      \
	template op::Status dispatch(core::Process &, const op::Entry &, const Door &, const op::Call &, const Original &);
FOR(GemmCall)
FOR(LtMatmulCall)
FOR(PlainCall)
FOR(ConvolutionCall)
FOR(GraphCall)
FOR(RnnCall)
FOR(DnnCall)
#undef FOR

} // namespace autoamp
