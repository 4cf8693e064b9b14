#include "src/life/start.h"

#include "src/base/caller_state.h"
#include "src/base/held_signals.h"
#include "src/cuda/driver.h"
#include "src/life/fork.h"
#include "src/life/fork_hold.h"
#include "src/life/gradients.h"
#include "src/life/launch_functions.h"
#include "src/life/launches.h"
#include "src/life/scaler.h"
#include "src/life/trace_file.h"
#include "src/life/weight_events.h"
#include "src/lower/kept_operands.h"
#include "src/place/capture_range.h"
#include "src/place/region/intern.h"
#include "src/place/region/stack.h"
#include "src/site/device.h"
#include "src/state/stage.h"
#include "src/trace/cupti/collector.h"

#include <cstdlib>
#include <utility>

namespace autoamp::core {

namespace {

// If the emulated device could not run a kernel, the results of the program differ from those on a GPU.
// Recorded at once: a killed process has no exit.
void watchRefusedKernels(Process &process)
{
	static trace::Recorder *recorder;
	recorder = &process.recorder;
	const cuda::Driver *const driver = cuda::driver();
	if (driver && driver->watchRefused)
		driver->watchRefused(
		    [](const char *name, unsigned long launches) { recorder->note(trace::noteOfRefused, name, 0, launches); });
}

void onExit(int status, void *)
{
	static bool isDone = false;
	const base::CallerState callerState;
	if (stage.load(std::memory_order_acquire) != Stage::on || std::exchange(isDone, true))
		return;
	Process &process = *theProcess.load();
	if (process.isTracing)
		trace::cupti::finish();
	drainScalerEvents(process, true);
	warnOfChanges();
	if (!process.isTracing)
		return;
	finishGradients(process);
	closeTrace(process, status);
}

// May be called more than once. The handler registered last runs first.
void watchExit()
{
	on_exit(onExit, nullptr);
}

Process *start()
{
	static std::atomic<bool> isWatching{false};
	if (!isWatching.exchange(true)) { // a child forked during the start runs this function again
		registerForkHandlers();
		watchExit();
	}
	const Policy *const configured = processPolicy();
	if (!configured || !(configured->options.enabled || isWoken))
		return nullptr;
	const policy::Options &options = configured->options;
	auto *process = new Process{options, {}, {}, {}, {}, false, {}, {}};
	if (autoamp_cpu_original) // the front for a CPU BLAS is in the process
		process->cpu = cpuConstants(options);
	process->environment.tf32Allowed = options.tf32Allowed;
	process->environment.emulatesSingle = options.emulatesSingle;
	process->settings.memoryBudget = options.memory;
	process->settings.isScaling = options.scaling != policy::Scaling::off;
	process->settings.isStrict = options.scaling == policy::Scaling::strict;
	process->settings.roundsOutput = options.roundOutput;
	process->settings.directory = process->options.directory.c_str();
	process->isTracing = openTrace(*process);
	process->settings.auditPeriod = process->isTracing ? options.auditPeriod : 0;
	limitCapture(*process);
	onWeightsRegionEnd.store([](uint64_t region) {
		const base::CallerState callerState;
		lower::releaseWeights(region);
	});
	const bool isFixed = options.originOf(policy::Option::level) == policy::Origin::environment;
	isIdle = options.level == policy::Level::O0 && isFixed && !process->isTracing;
	// Before another thread can make calls: its first kernels would have no owner.
	if (process->isTracing && options.trace == policy::TraceLevel::kernels)
		watchLaunches(*process, watchExit), watchLaunchFunctions();
	if (process->isTracing)
		watchRefusedKernels(*process);
	logStart(*process);
	return process;
}

} // namespace

Process *startProcess()
{
	const base::CallerState callerState;
	const base::HeldSignals held;
	for (;;) {
		Stage now = stage.load(std::memory_order_acquire);
		if (now == Stage::on)
			return theProcess.load(std::memory_order_acquire);
		if (now == Stage::off)
			return nullptr;
		if (now == Stage::starting) {
			if (awaitStart())
				continue;
			unsigned *const unseen = &autoamp_front_unseen ? &autoamp_front_unseen : &autoamp_cpu_unseen;
			__atomic_add_fetch(unseen, 1, __ATOMIC_RELAXED);
			return nullptr; // the call runs unchanged
		}
		// A child forked during the start would wait for a start that no thread completes, or inherit a libc lock that
		// no thread releases.
		const ForkHold hold;
		if (stage.compare_exchange_strong(now, Stage::starting, std::memory_order_acq_rel)) {
			Process *const started = start();
			theProcess.store(started, std::memory_order_release);
			if (!started)
				isIdle = true;
			endStart(started ? Stage::on : Stage::off);
		}
	}
}

} // namespace autoamp::core
