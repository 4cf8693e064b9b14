// One call as the doors describe it: the Op, the device that decides with it, and what a lowered run would need. Any
// thread; asks the handle's and the driver's getters, changes nothing.
#pragma once

#include "src/call/interception.h"
#include "src/op/arguments.h"
#include "src/op/entry.h"
#include "src/op/op.h"
#include "src/reroute/gemm.h"
#include "src/site/site.h"
#include "src/state/caller.h"
#include "src/state/process.h"
#include "src/state/thread.h"

namespace autoamp::core {

struct Subject {
	Site *site = nullptr;
	Rows *rows = nullptr; // the site's, for the call's context
	void *stream = nullptr;
	bool isCaptured = false;
	bool isCounted = false; // already: nothing more is recorded of it
	bool hasHandleFailed =
	    false; // a getter of the application's handle refused: bad_argument, or a fault of the vendor's
	const char *failed = nullptr;                    // the step of ours behind hasHandleFailed or the obstacle
	policy::Reason obstacle = policy::Reason::count; // why this one call cannot be lowered; count: nothing
	op::Status refusal = 0;                          // what a call answers that must not run as it was asked; 0: it may
};

struct Asking {
	Process &process;
	Thread &thread;
	const op::Entry &entry;
	const Door &door;
	CallerAnswer caller;
	uint32_t context; // once: another thread may change it meanwhile
	bool isRecorded;
};

Subject describe(const Asking &asking, const op::GemmCall &call);
Subject describe(const Asking &asking, const op::LtMatmulCall &call);
Subject describe(const Asking &asking, const op::PlainCall &call);
Subject describe(const Asking &asking, const op::ConvolutionCall &call);
Subject describe(const Asking &asking, const op::GraphCall &call);
Subject describe(const Asking &asking, const op::RnnCall &call);
Subject describe(const Asking &asking, const op::DnnCall &call);

// Runs the call as decided: as its site decided, or by the substitute of that.
reroute::Outcome lower(const Asking &asking, const Subject &subject, const policy::Decision &decision,
                       const op::GemmCall &call);
reroute::Outcome lower(const Asking &asking, const Subject &subject, const policy::Decision &decision,
                       const op::LtMatmulCall &call);
reroute::Outcome lower(const Asking &asking, const Subject &subject, const policy::Decision &decision,
                       const op::ConvolutionCall &call);
reroute::Outcome lower(const Asking &asking, const Subject &subject, const policy::Decision &decision,
                       const op::GraphCall &call);
reroute::Outcome lower(const Asking &asking, const Subject &subject, const policy::Decision &decision,
                       const op::RnnCall &call);
template <typename Call>
reroute::Outcome lower(const Asking &, const Subject &, const policy::Decision &, const Call &)
{
	return {}; // no decision lowers one of the others
}

// Runs a call whose cast had no memory by the substitute. The outcome is `shortage` if that does not work either.
template <typename Call>
reroute::Outcome substitute(const Asking &asking, const Subject &subject, const Call &call,
                            const reroute::Outcome &shortage)
{
	const policy::Decision decision = subject.site->decision.substituted(shortage.reason);
	const reroute::Outcome outcome = lower(asking, subject, decision, call);
	if (!outcome.isDone)
		return shortage;
	reroute::Outcome done = shortage;
	done.isDone = done.isSubstitute = true;
	done.status = outcome.status;
	done.isCaptured = outcome.isCaptured;
	return done;
}

} // namespace autoamp::core
