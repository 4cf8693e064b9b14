// One intercepted call: its Op, its device, and the state needed to lower it. Any thread. Queries the handle and the
// driver; changes no state of the application or the vendor libraries.
#pragma once

#include "src/call/interception.h"
#include "src/lower/convolution.h"
#include "src/lower/gemm.h"
#include "src/lower/graph.h"
#include "src/lower/lowered_call.h"
#include "src/lower/rnn.h"
#include "src/op/arguments.h"
#include "src/op/blas.h"
#include "src/op/entry.h"
#include "src/op/op.h"
#include "src/site/site.h"
#include "src/state/caller.h"
#include "src/state/process.h"
#include "src/state/thread.h"

namespace autoamp::core {

struct DescribedCall {
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

struct CallInfo {
	Process &process;
	Thread &thread;
	const op::Entry &entry;
	const Interception &interception;
	CallerAnswer caller;
	uint32_t context; // read once: another thread may change it during the call
	bool isRecorded;
};

DescribedCall describe(const CallInfo &info, const op::GemmCall &call);
DescribedCall describe(const CallInfo &info, const op::BlasCall &call);
DescribedCall describe(const CallInfo &info, const op::LtMatmulCall &call);
DescribedCall describe(const CallInfo &info, const op::PlainCall &call);
DescribedCall describe(const CallInfo &info, const op::ConvolutionCall &call);
DescribedCall describe(const CallInfo &info, const op::GraphCall &call);
DescribedCall describe(const CallInfo &info, const op::RnnCall &call);
DescribedCall describe(const CallInfo &info, const op::DnnCall &call);

lower::LoweredCall loweredCall(const CallInfo &info, const DescribedCall &described, const policy::Decision &decision);

// Runs the call by `decision`: that of its site, or the substitute of that decision.
template <typename Call>
lower::Outcome lower(const CallInfo &info, const DescribedCall &described, const policy::Decision &decision,
                     const Call &call)
{
	lower::LoweredCall lowered = loweredCall(info, described, decision);
	if constexpr (requires { lower::lower(lowered, call); })
		return lower::lower(lowered, call);
	else if constexpr (requires { lower::lower(lowered, call, info.thread.execution); })
		return lower::lower(lowered, call, info.thread.execution);
	else
		return {}; // no decision lowers calls of the other families
}

// A product of a CPU BLAS runs in bfloat16 on the CPU.
lower::Outcome lower(const CallInfo &info, const DescribedCall &described, const policy::Decision &decision,
                     const op::BlasCall &call);

// Runs a call by the substitute decision after its cast declined with a shortage. Returns `shortage` if the substitute
// fails too.
template <typename Call>
lower::Outcome substitute(const CallInfo &info, const DescribedCall &described, const Call &call,
                          const lower::Outcome &shortage)
{
	const policy::Decision decision = described.site->decision.substituted(shortage.reason);
	const lower::Outcome outcome = lower(info, described, decision, call);
	if (!outcome.isDone)
		return shortage;
	lower::Outcome done = shortage;
	done.isDone = done.isSubstitute = true;
	done.status = outcome.status;
	done.isCaptured = outcome.isCaptured;
	return done;
}

} // namespace autoamp::core
