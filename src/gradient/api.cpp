#include "src/gradient/api.h"

#include "src/base/caller_state.h"
#include "src/life/fork.h"
#include "src/life/scaler.h"
#include "src/life/start.h"

#include <algorithm>
#include <cmath>

namespace autoamp::gradient {

namespace {

// autoamp's own lookups in this thread bypass the hook of the front.
struct Inside {
	Inside() { autoamp_front_thread.depth++; }
	~Inside() { autoamp_front_thread.depth--; }
};

// Returns null without a trace.
core::Process *tracingProcess()
{
	core::Process *const process = core::process();
	if (process && process->isForked.load(std::memory_order_relaxed))
		core::reopenTrace(*process);
	return process && process->isTracing ? process : nullptr;
}

// Returns whether the caller knows at most the fields of T. A longer struct is of a later version: its unknown fields
// must be zero.
template <class T>
bool isKnown(const T *given)
{
	const auto *const bytes = reinterpret_cast<const char *>(given);
	return given && given->size >= sizeof *given &&
	       std::all_of(bytes + sizeof *given, bytes + given->size, [](char byte) { return byte == 0; });
}

int recordUpdate(const autoamp_scaler_update *given)
{
	if (!isKnown(given) || !given->framework || !given->how || given->interval < 0 || given->device < 0)
		return AUTOAMP_BAD_VALUE;
	const Inside inside;
	core::Process *const process = tracingProcess();
	if (!process)
		return AUTOAMP_UNKNOWN;
	const base::CallerState callerState;
	core::drainScalerEvents(*process); // of operands: they can be the cause of this update
	trace::GradientScaler scaler;
	scaler.framework = given->framework;
	scaler.how = given->how;
	scaler.identity = reinterpret_cast<uintptr_t>(given->scaler);
	scaler.device = static_cast<uint16_t>(given->device);
	scaler.growth = given->growth_factor;
	scaler.backoff = given->backoff_factor;
	scaler.interval = static_cast<uint32_t>(given->interval);
	trace::GradientUpdate update;
	update.before = {given->scale_before, given->tracker_before, -1};
	update.after = {given->scale_after, given->tracker_after, given->hysteresis};
	// Only an overflow reduces the scale.
	update.foundInf = std::isnan(given->found_inf) ? given->scale_after < given->scale_before : given->found_inf;
	process->recorder.gradient(scaler, update);
	return 0;
}

} // namespace

const front::Scalers scalerCalls = {recordUpdate};

} // namespace autoamp::gradient
