// Updates of the gradient scalers of the program: probes around its update kernels, and their results in the trace. Any
// thread; nothing waits, and no lock is held during a driver call. See docs/adr/0052.
#pragma once

#include "src/lower/probe.h"
#include "src/scale/gradient_kernels.h"
#include "src/state/process.h"

namespace autoamp::core {

// A launch of a kernel of a gradient scaler by the program, on a thread that has its context current.
struct ScalerLaunch {
	const scale::GradientKernel &kernel;
	void *const *arguments;
	cuda::Stream stream; // as in the driver: the stream of the thread is 2
};

// The probes around one launch.
class WatchedLaunch
{
public:
	// Launches the first probe. If a value cannot be read for certain, no probe is launched, and a note has the reason.
	WatchedLaunch(Process &process, const ScalerLaunch &launch);
	// The owner of the program's launch (base::updateOwner); 0: it does not end an update, or is not probed.
	uint64_t owner() const;
	// Launches the second probe, after the program's launch has succeeded.
	void end();

private:
	lower::ProbePlace place_; // no context: there are no probes
	const ScalerLaunch launch_;
	kernels::Probe probe_ = {};
};

// Records one update that has arrived from the device. Only one thread at a time for each context.
void recordUpdate(Process &process, lower::ContextState &context, const kernels::Event &event);

// Adds a scaler event of an operand to those that can be the cause of the next skipped step. The same.
void suspect(lower::ContextState &context, trace::RowId row, kernels::EventKind kind, char operand, uint64_t ticks);

// At exit, after all events: records the latest update of the scalers whose scale is changed on the host, and the
// reasons why the values of other scalers are missing.
void finishGradients(Process &process);
// For a forked child, in which CUDA does not work: updates without a record belong to the parent.
void forgetGradients();

// Notes that a kernel belongs to a gradient scaler, but its values cannot be read. Once for each name and reason.
void noteUnread(Process &process, const scale::NamedKernel &kernel, const char *name);

} // namespace autoamp::core
