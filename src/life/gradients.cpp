#include "src/life/gradients.h"

#include "src/base/clock.h"
#include "src/base/own_work.h"
#include "src/life/gradient_table.h"
#include "src/site/rows.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

namespace autoamp::core {

namespace {

using scale::GradientKernel;
using Part = GradientKernel::Part;

constexpr const char *howUnscaled = "unscale_kernel";

// Scaler events of operands since the scaler's update before.
struct Causes {
	trace::GradientCause list[std::size(lower::ContextState::Suspects().latest)];
	unsigned count = 0;

	std::span<const trace::GradientCause> span() const { return {list, count}; }
};

// The latest update of a scaler whose scale is changed on the host: its scale afterwards is that of the next update.
// Used while the context of the scaler is drained.
struct Waiting {
	trace::GradientUpdate update;
	bool is = false;
	uint64_t skipped = 0; // steps that another kernel found to be bad
	Causes causes;
};
Waiting waitingUpdates[kernels::scalerCount]; // by Update::scaler
constinit std::atomic<bool> isAnyRecorded{false}, isForked{false};
constinit std::atomic<const char *> valueless[4] = {}; // reasons, for the exit

template <class T>
T valueAt(const ScalerLaunch &launch, int8_t parameter)
{
	T value;
	std::memcpy(&value, launch.arguments[parameter], sizeof value);
	return value;
}

const void *pointerAt(const ScalerLaunch &launch, int8_t parameter)
{
	return parameter < 0 ? nullptr : valueAt<const void *>(launch, parameter);
}

bool hasArguments(const ScalerLaunch &launch)
{
	if (!launch.arguments)
		return false;
	for (unsigned i = 0; launch.kernel.sizes[i]; i++)
		if (!launch.arguments[i])
			return false;
	return true;
}

bool isReadable(const cuda::Driver &driver, const ScalerLaunch &launch, int device)
{
	const GradientKernel &kernel = launch.kernel;
	for (const scale::StateParameters &state : {kernel.before, kernel.after})
		for (const int8_t parameter : {state.scale, state.tracker, state.hysteresis})
			if (parameter >= 0 && !lower::isDeviceMemory(driver, pointerAt(launch, parameter), 4, device))
				return false;
	return kernel.foundInf < 0 || kernel.isFoundInfValue ||
	       lower::isDeviceMemory(driver, pointerAt(launch, kernel.foundInf), static_cast<size_t>(kernel.foundInfBytes),
	                             device);
}

double factorAt(const ScalerLaunch &launch, int8_t parameter)
{
	return parameter < 0                   ? NAN
	       : launch.kernel.hasFloatFactors ? double{valueAt<float>(launch, parameter)}
	                                       : valueAt<double>(launch, parameter);
}

// The state of a scaler can have the address that another one had before a reset of the device.
trace::GradientScaler describe(const ScalerLaunch &launch, int device, unsigned long long contextId)
{
	const GradientKernel &kernel = launch.kernel;
	trace::GradientScaler scaler;
	scaler.framework = kernel.framework;
	scaler.how = kernel.part == Part::update ? "update_kernel" : howUnscaled;
	scaler.identity = reinterpret_cast<uintptr_t>(pointerAt(launch, kernel.identity)) ^ contextId * 0x9e3779b97f4a7c15u
	                                                                                        << 48;
	scaler.device = static_cast<uint16_t>(device);
	scaler.growth = factorAt(launch, kernel.growth);
	scaler.backoff = factorAt(launch, kernel.backoff);
	if (kernel.interval >= 0)
		scaler.interval = static_cast<uint32_t>(valueAt<int32_t>(launch, kernel.interval));
	return scaler;
}

void setState(kernels::Probe &probe, const ScalerLaunch &launch, const scale::StateParameters &state)
{
	probe.scale = static_cast<const float *>(pointerAt(launch, state.scale));
	probe.tracker = static_cast<const int32_t *>(pointerAt(launch, state.tracker));
	probe.hysteresis = static_cast<const int32_t *>(pointerAt(launch, state.hysteresis));
}

trace::GradientState stateOf(const kernels::GradientState &state)
{
	return {state.scale, state.tracker, state.hysteresis};
}

// Ends the time in which events are causes of this update. The first update of a scaler has those since any update.
Causes causesOf(lower::ContextState &context, uint32_t scaler)
{
	auto &suspects = context.suspects;
	uint32_t &after = suspects.countAfterUpdate[scaler];
	const uint32_t size = std::size(suspects.latest), since = after ? after - 1 : suspects.countAtUpdate;
	Causes causes;
	for (uint32_t i = std::max(since, suspects.count - std::min(suspects.count, size)); i < suspects.count; i++) {
		const auto &[row, kind, operand, ticks] = suspects.latest[i % size];
		const char *const word = kind == kernels::EventKind::overflow ? "overflow" : "nonfinite_input";
		causes.list[causes.count++] = {row, word, operand, ticks};
	}
	suspects.countAtUpdate = suspects.count;
	after = suspects.count + 1;
	return causes;
}

void writeUpdate(Process &process, uint32_t scaler, const trace::GradientUpdate &update, const Causes &causes)
{
	trace::GradientScaler info = scalerAt(scaler);
	info.owner = scaler;
	process.recorder.gradient(info, update,
	                          update.foundInf != 0 ? causes.span() : std::span<const trace::GradientCause>());
}

// The updates of an autoamp scaler by several devices arrive in a ring for each device. A later one waits here until
// the earlier ones have arrived. Too many waiting updates mean that a ring has lost one.
class Sequences
{
public:
	void add(Process &process, uint32_t scaler, const trace::GradientUpdate &update, const Causes &causes)
	{
		const std::lock_guard lock(mutex_);
		Sequence &sequence = sequences_[scaler];
		sequence.waiting.insert_or_assign(update.steps, Update{update, causes});
		while (!sequence.waiting.empty() &&
		       (sequence.waiting.begin()->first <= sequence.last + 1 || sequence.waiting.size() > mostWaiting))
			writeFirst(process, scaler, sequence);
	}
	void finish(Process &process)
	{
		const std::lock_guard lock(mutex_);
		for (auto &[scaler, sequence] : sequences_)
			while (!sequence.waiting.empty())
				writeFirst(process, scaler, sequence);
	}

private:
	static constexpr size_t mostWaiting = 256;
	struct Update {
		trace::GradientUpdate update;
		Causes causes;
	};
	struct Sequence {
		uint64_t last = 0;                  // the step that was written last
		std::map<uint64_t, Update> waiting; // by step
	};

	static void writeFirst(Process &process, uint32_t scaler, Sequence &sequence)
	{
		const auto first = sequence.waiting.begin();
		writeUpdate(process, scaler, first->second.update, first->second.causes);
		sequence.last = first->first;
		sequence.waiting.erase(first);
	}

	std::mutex mutex_;
	std::map<uint32_t, Sequence> sequences_; // by index of the scaler
};

Sequences &sequences() // never destroyed: the last updates arrive at exit
{
	static auto *const made = new Sequences;
	return *made;
}

// The update of a scaler whose scale is changed on the host is complete when its next scale is known.
void recordWaiting(Process &process, uint32_t scaler, double nextScale)
{
	auto &[update, isWaiting, skipped, causes] = waitingUpdates[scaler];
	if (!isWaiting)
		return;
	update.after.scale = nextScale;
	// Another kernel of the same step, for gradients of another type, has found the overflow.
	if (nextScale < update.before.scale && update.foundInf == 0) {
		update.foundInf = 1;
		skipped++;
	}
	update.skipped += skipped;
	writeUpdate(process, scaler, update, causes);
	isWaiting = false;
}

} // namespace

WatchedLaunch::WatchedLaunch(Process &process, const ScalerLaunch &launch) : launch_(launch)
{
	const cuda::Driver *const driver = cuda::driver();
	if (!driver || !hasArguments(launch))
		return;
	const cuda::RelaxedCapture relaxed(*driver);
	lower::ProbePlace place = lower::probePlace(*driver, process.settings.memoryBudget, launch.stream);
	if (place.context) {
		const int device = place.context->facts->ordinal;
		if (!isReadable(*driver, launch, device)) {
			place.reason = "a parameter of the update is not memory of its device";
		} else {
			probe_.scaler = scalerIndex(describe(launch, device, place.context->id), place.context->id);
			if (!probe_.scaler)
				place.reason = "there are too many gradient scalers";
		}
	}
	if (place.reason) {
		process.recorder.note(trace::noteOfGradient, place.reason);
		return;
	}
	setState(probe_, launch, launch.kernel.before);
	if (launch.kernel.part == Part::end || lower::launchProbe(*driver, place, launch.stream, probe_))
		place_ = place;
}

uint64_t WatchedLaunch::owner() const
{
	return place_.context && launch_.kernel.part != Part::begin ? base::updateOwner(probe_.scaler) : 0;
}

void WatchedLaunch::end()
{
	if (!place_.context || launch_.kernel.part == Part::begin)
		return;
	const cuda::Driver &driver = *cuda::driver();
	const cuda::RelaxedCapture relaxed(driver);
	setState(probe_, launch_, launch_.kernel.after);
	const int8_t foundInf = launch_.kernel.foundInf;
	if (launch_.kernel.isFoundInfValue)
		probe_.foundInfValue = valueAt<bool>(launch_, foundInf);
	else
		probe_.foundInf = pointerAt(launch_, foundInf);
	probe_.foundInfBytes = static_cast<uint32_t>(launch_.kernel.foundInfBytes);
	probe_.isAfter = true;
	probe_.ticks = place_.isCapturing ? 0 : base::ticks();
	lower::launchProbe(driver, place_, launch_.stream, probe_);
}

void recordUpdate(Process &process, lower::ContextState &context, const kernels::Event &event)
{
	const uint32_t index = event.update.scaler % kernels::scalerCount;
	const trace::GradientScaler scaler = scalerAt(index);
	if (!scaler.framework || !process.isTracing)
		return;
	trace::GradientUpdate update;
	update.before = stateOf(event.update.before);
	update.after = stateOf(event.update.after);
	update.foundInf = event.update.foundInf;
	update.steps = event.update.steps;
	update.skipped = event.update.skipped;
	update.ticks = static_cast<uint32_t>(event.before) | uint64_t{static_cast<uint32_t>(event.after)} << 32;
	const Causes causes = causesOf(context, index);
	isAnyRecorded.store(true, std::memory_order_relaxed);
	if (std::strcmp(scaler.how, "autoamp") == 0)
		return sequences().add(process, index, update, causes);
	if (std::strcmp(scaler.how, howUnscaled) != 0)
		return writeUpdate(process, index, update, causes);
	recordWaiting(process, index, update.before.scale);
	waitingUpdates[index].update = update;
	waitingUpdates[index].is = true;
	waitingUpdates[index].causes = causes;
}

void suspect(lower::ContextState &context, trace::RowId row, kernels::EventKind kind, char operand, uint64_t ticks)
{
	auto &suspects = context.suspects;
	suspects.latest[suspects.count++ % std::size(suspects.latest)] = {row, kind, operand, ticks};
}

void forgetGradients()
{
	isForked.store(true, std::memory_order_relaxed);
}

void finishGradients(Process &process)
{
	if (isForked.load(std::memory_order_relaxed))
		return;
	sequences().finish(process);
	for (uint32_t i = 0; i < kernels::scalerCount; i++)
		recordWaiting(process, i, NAN);
	for (const std::atomic<const char *> &reason : valueless)
		if (const char *const text = reason.load(std::memory_order_relaxed);
		    text && !isAnyRecorded.load(std::memory_order_relaxed))
			process.recorder.note(trace::noteOfGradient, text);
}

void noteUnread(Process &process, const scale::NamedKernel &kernel, const char *name)
{
	if (kernel.use == scale::NamedKernel::Use::unknown) {
		process.recorder.note(trace::noteOfLayout, name);
		return;
	}
	for (std::atomic<const char *> &reason : valueless) {
		const char *known = nullptr;
		if (reason.compare_exchange_strong(known, kernel.reason, std::memory_order_relaxed) || known == kernel.reason)
			return;
	}
}

} // namespace autoamp::core
