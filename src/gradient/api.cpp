#include "src/gradient/api.h"

#include "src/base/caller_state.h"
#include "src/gradient/scaler.h"
#include "src/life/fork.h"
#include "src/life/scaler.h"
#include "src/life/start.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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

// Names are part of tables in reports.
bool isName(const char *name)
{
	constexpr size_t most = 64;
	return strnlen(name, most + 1) <= most;
}

// Apart from the function that restores the floating-point environment of the caller.
[[gnu::noinline]] void record(core::Process &process, const autoamp_gradient_update &given)
{
	core::drainScalerEvents(process); // of operands: they can be the cause of this update
	trace::GradientScaler scaler;
	scaler.framework = given.framework;
	scaler.how = given.how;
	scaler.identity = reinterpret_cast<uintptr_t>(given.scaler);
	scaler.device = static_cast<uint16_t>(given.device);
	scaler.growth = given.growth_factor;
	scaler.backoff = given.backoff_factor;
	scaler.interval = static_cast<uint32_t>(given.interval);
	trace::GradientUpdate update;
	update.before = {given.scale_before, given.tracker_before, -1};
	update.after = {given.scale_after, given.tracker_after, given.hysteresis};
	// Only an overflow reduces the scale.
	update.foundInf = std::isnan(given.found_inf) ? given.scale_after < given.scale_before : given.found_inf;
	process.recorder.gradient(scaler, update);
}

[[gnu::noinline]] bool isValid(const autoamp_scaler_options &options)
{
	return frameworkOf(options.rule) && (!options.name || isName(options.name)) && options.growth_factor > 0 &&
	       !std::isnan(options.backoff_factor) && options.growth_interval >= 0 && options.backoff_every > 0 &&
	       options.hysteresis > 0 && !std::isnan(options.init_scale) && !std::isnan(options.min_scale) &&
	       !(options.flags & ~(AUTOAMP_SCALER_CONSECUTIVE | AUTOAMP_SCALER_STOPS));
}

int recordUpdate(const autoamp_gradient_update *given)
{
	if (!isKnown(given) || !given->framework || !given->how || !isName(given->framework) || given->interval < 0 ||
	    given->device < 0 || given->device > UINT16_MAX)
		return AUTOAMP_BAD_VALUE;
	const Inside inside;
	core::Process *const process = tracingProcess();
	if (!process)
		return AUTOAMP_UNKNOWN;
	const base::CallerState callerState;
	record(*process, *given);
	return 0;
}

int create(autoamp_scaler **scaler, const autoamp_scaler_options *options)
{
	const Inside inside;
	if (!isKnown(options))
		return AUTOAMP_BAD_VALUE;
	core::Process *const process = core::process();
	if (!process)
		return AUTOAMP_UNKNOWN;
	const base::CallerState callerState;
	if (!isValid(*options))
		return AUTOAMP_BAD_VALUE;
	Scaler *made = nullptr;
	const int status = Scaler::create(*process, *options, made);
	*scaler = made ? made->handle() : nullptr;
	return status;
}

// Calls a member function of the scaler.
template <auto function, typename... Args>
int call(const autoamp_scaler *handle, Args &&...args)
{
	const Inside inside;
	const base::CallerState callerState;
	Scaler *const scaler = Scaler::find(handle);
	return scaler ? (scaler->*function)(args...) : AUTOAMP_BAD_VALUE;
}

cuda::Stream streamOf(void *stream)
{
	return static_cast<cuda::Stream>(stream);
}

int destroy(autoamp_scaler *scaler)
{
	return call<&Scaler::destroy>(scaler);
}

int scale(autoamp_scaler *scaler, const autoamp_tensor *tensors, size_t count, void *stream)
{
	return call<&Scaler::scale>(scaler, tensors, count, streamOf(stream));
}

int unscale(autoamp_scaler *scaler, unsigned optimizer, const autoamp_tensor *tensors, size_t count, void *stream)
{
	return call<&Scaler::unscale>(scaler, optimizer, tensors, count, streamOf(stream));
}

int step(autoamp_scaler *scaler, unsigned optimizer, void *stream)
{
	return call<&Scaler::step>(scaler, optimizer, streamOf(stream));
}

int update(autoamp_scaler *scaler, const double *newScale, void *stream)
{
	return call<&Scaler::update>(scaler, newScale, streamOf(stream));
}

int get(autoamp_scaler *scaler, autoamp_scaler_state *state, void *stream)
{
	return isKnown(state) ? call<&Scaler::get>(scaler, *state, streamOf(stream)) : AUTOAMP_BAD_VALUE;
}

int load(autoamp_scaler *scaler, const autoamp_scaler_state *state, void *stream)
{
	return isKnown(state) ? call<&Scaler::load>(scaler, *state, streamOf(stream)) : AUTOAMP_BAD_VALUE;
}

int pointers(autoamp_scaler *scaler, unsigned optimizer, const float **scale, const float **found)
{
	return call<&Scaler::pointers>(scaler, optimizer, *scale, *found);
}

} // namespace

const front::Scalers scalerCalls = {recordUpdate, create, destroy, scale, unscale, step, update, get, load, pointers};

} // namespace autoamp::gradient
