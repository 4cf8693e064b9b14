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
op::Status dispatch(core::Process &process, const op::Entry &entry, const Interception &interception, const Call &call,
                    const Original &original)
{
	core::Thread *const thread = core::thisThread(process);
	if (!thread)
		return original();
	const core::CallerAnswer caller = core::callerOf(*thread, interception.returnAddress);
	if (caller.kind == core::CallerKind::vendor) // NVIDIA's libraries chose fp32 deliberately
		return original();
	if (process.isForked.load(std::memory_order_relaxed))
		core::reopenTrace(process);
	core::noteLibraryOnce(process, entry.library, interception.original);

	// Describe the call.
	const core::CaptureCall captured(*thread);
	const core::CallInfo info = {process,
	                             *thread,
	                             entry,
	                             interception,
	                             caller,
	                             core::contextOf(*thread, core::deviceTypeOf(entry.library)),
	                             captured.isRecorded()};
	core::DescribedCall described = core::describe(info, call);
	// The decision was made at the first call of the signature and never changes.
	core::Site &site = *described.site;
	core::Record record(process, *thread, *described.rows, info.isRecorded && !described.isCounted);
	core::Launches launches(process, *thread, *described.rows, info.isRecorded);

	// Lower the call. If an obstacle appears before C is written, the call runs unchanged.
	if (described.obstacle == Reason::count && !site.decision.isUnchanged()) {
		lower::Outcome outcome = core::lower(info, described, site.decision, call);
		if (site.decision.substitute != policy::Strategy::fp32 && !outcome.isDone &&
		    policy::isShortage(outcome.reason)) {
			launches.substitute(process, *described.rows, outcome.reason);
			outcome = core::substitute(info, described, call, outcome);
		}
		record.setOutcome(outcome);
		if (outcome.isDone) {
			core::drainScalerEvents(process);
			return outcome.status;
		}
		described.obstacle = outcome.reason;
		described.isCaptured = outcome.isCaptured;
		launches.fallBack(process, *described.rows, described.obstacle);
		if (described.refusal && outcome.code)
			described.refusal = outcome.code;
	}
	const op::Status status = described.refusal ? described.refusal : original();

	// Record the outcome.
	record.finish(described, status);
	return status;
}

#define FOR(Call)                                                                                                      \
	template op::Status dispatch(core::Process &, const op::Entry &, const Interception &, const op::Call &,           \
	                             const Original &);
FOR(GemmCall)
FOR(BlasCall)
FOR(LtMatmulCall)
FOR(PlainCall)
FOR(ConvolutionCall)
FOR(GraphCall)
FOR(RnnCall)
FOR(DnnCall)
#undef FOR

} // namespace autoamp
