// One intercepted call: its Op, its device, and the state needed to lower it. Any thread. Queries the handle and the
// driver; changes nothing.
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
	Rows *rows = nullptr; // rows of the site for the call's context
	void *stream = nullptr;
	bool isCaptured = false;
	bool isCounted = false; // already counted; nothing more is recorded for it
	bool hasHandleFailed =
	    false; // a getter of the application's handle failed: bad_argument, or a fault of the vendor library
	const char *failed = nullptr;                    // the autoamp step that caused hasHandleFailed or the obstacle
	policy::Reason obstacle = policy::Reason::count; // why this call cannot be lowered; count: no obstacle
	op::Status refusal = 0; // status to return instead of running the call unchanged; 0: it may run unchanged
};

struct Asking {
	Process &process;
	Thread &thread;
	const op::Entry &entry;
	const Door &door;
	CallerAnswer caller;
	uint32_t context; // read once: another thread may change it during the call
	bool isRecorded;
};

Subject describe(const Asking &asking, const op::GemmCall &call);
Subject describe(const Asking &asking, const op::LtMatmulCall &call);
Subject describe(const Asking &asking, const op::PlainCall &call);
Subject describe(const Asking &asking, const op::ConvolutionCall &call);
Subject describe(const Asking &asking, const op::GraphCall &call);
Subject describe(const Asking &asking, const op::RnnCall &call);
Subject describe(const Asking &asking, const op::DnnCall &call);

// Runs the call by `decision`: that of its site, or the substitute of that decision.
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
	return {}; // no decision lowers calls of the other families
}

// Runs a call by the substitute decision after its cast found no memory. Returns `shortage` if the substitute fails
// too.
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
