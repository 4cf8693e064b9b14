#include "src/core/process.h"

#include "inject/entry_table.h"
#include "inject/front.h"
#include "src/base/caller_state.h"
#include "src/base/clock.h"
#include "src/base/faults.h"
#include "src/base/futex.h"
#include "src/base/log.h"
#include "src/core/capture_range.h"
#include "src/core/launches.h"
#include "src/core/region.h"
#include "src/core/scaler.h"
#include "src/core/thread.h"
#include "src/cuda/context.h"
#include "src/cuda/library.h"
#include "src/op/backend.h"
#include "src/op/vendor.h"
#include "src/reroute/context.h"
#include "src/trace/naming.h"

#include <array>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

namespace autoamp::core {

namespace {

enum class Stage : int { none, starting, on, off };
std::atomic<Stage> stage{Stage::none};

// The thread that starts the process never waits for a thread that waits for the start.
void awaitStart()
{
	static_assert(sizeof stage == sizeof(int) && std::atomic<Stage>::is_always_lock_free);
	while (stage.load(std::memory_order_acquire) == Stage::starting)
		base::futexWait(&stage, static_cast<int>(Stage::starting));
}

void endStart(Stage started)
{
	stage.store(started, std::memory_order_release);
	base::futexWakeAll(&stage);
}

std::atomic<bool> isWoken{false}; // there was an enabled region

struct ForkHold {
	ForkHold() { autoamp_front_hold_forks(); }
	~ForkHold() { autoamp_front_release_forks(); }
};

const char *valueOf(const char *name)
{
	return policy::environmentValue(policy::processEnvironment(), name);
}

// As %e of a trace's name.
std::string programName()
{
	policy::ConfigFile arguments;
	std::string ignored;
	policy::readFile("/proc/self/cmdline", arguments, ignored);
	char name[NAME_MAX + 1];
	trace::programName(arguments.text.data(), arguments.text.size(), name, sizeof name);
	return name;
}

// ---- the trace's header

void describeDriver(trace::Recorder &recorder)
{
	recorder.property("version", "autoamp", AUTOAMP_VERSION);
	if (const cuda::Driver *driver = cuda::driver()) {
		char text[24];
		std::snprintf(text, sizeof text, "%d.%d", driver->version / 1000, driver->version % 1000 / 10);
		recorder.property("version", "cuda_driver", text);
		int count = 0;
		// A program may call cuBLAS before it has started CUDA: with a null handle, for example.
		if (const cuda::Result result = driver->cuDeviceGetCount(&count); result && result != cuda::notInitialized)
			base::leaveFault("cuDeviceGetCount");
		for (int ordinal = 0; ordinal < count; ordinal++) {
			if (const auto *facts = cuda::deviceFacts(*driver, ordinal)) {
				char kind[16];
				std::snprintf(text, sizeof text, "%d", ordinal);
				std::snprintf(kind, sizeof kind, "sm_%d", facts->capability);
				recorder.property("device", text, facts->name, kind);
			} else {
				base::leaveFault("cuDeviceGetAttribute");
			}
		}
	}
}

// AUTOAMP_LOG=info: the path of the core, the settings and their sources, the trace, driver and devices.
void logStart(const Process &process)
{
	if (!base::logs(base::LogLevel::info))
		return;
	dl_find_object object;
	const bool isFound = _dl_find_object(reinterpret_cast<void *>(&logStart), &object) == 0 && object.dlfo_link_map;
	base::log(base::LogLevel::info, "core %s, version " AUTOAMP_VERSION,
	          isFound ? object.dlfo_link_map->l_name : "at an unknown path");
	const policy::Options &options = process.options;
	std::string settings;
	for (size_t i = 0; i < policy::optionTable().size(); i++)
		if (options.origin[i] != policy::Origin::fallback)
			settings += std::string(settings.empty() ? "" : ", ") + policy::optionTable()[i].name + "=" +
			            options.value[i] + " (" + options.place[i] + ")";
	base::log(base::LogLevel::info, "settings: %s; %zu rules", settings.empty() ? "defaults" : settings.c_str(),
	          options.rules->list.size());
	base::log(base::LogLevel::info, "trace: %s", process.isTracing ? process.recorder.path() : "none");
	const cuda::Driver *const driver = cuda::driver();
	if (!driver) {
		base::log(base::LogLevel::info, "no CUDA driver in this process");
		return;
	}
	base::log(base::LogLevel::info, "CUDA driver %d.%d%s", driver->version / 1000, driver->version % 1000 / 10,
	          driver->isEmulated ? ", emulated" : "");
	int count = 0;
	if (driver->cuDeviceGetCount(&count) == 0)
		for (int ordinal = 0; ordinal < count; ordinal++)
			if (const auto *facts = cuda::deviceFacts(*driver, ordinal))
				base::log(base::LogLevel::info, "device %d: %s, sm_%d", ordinal, facts->name, facts->capability);
}

void describeOptions(trace::Recorder &recorder, const policy::Options &options)
{
	const auto table = policy::optionTable();
	for (size_t i = 0; i < table.size(); i++)
		if (table[i].type != policy::ValueType::emulator)
			recorder.property("config", table[i].name, options.value[i].c_str(), options.place[i].c_str());
	for (size_t i = 0; i < options.rules->list.size(); i++) {
		const policy::Rule &rule = options.rules->list[i];
		recorder.property("rule", std::to_string(i + 1).c_str(), policy::describe(rule).c_str(), rule.place.c_str());
	}
}

void tellUnseen(trace::Recorder &recorder)
{
	recorder.addLost(__atomic_exchange_n(&autoamp_front_unseen, 0, __ATOMIC_RELAXED));
}

bool openTrace(Process &process)
{
	const policy::Options &options = process.options;
	if (options.trace == policy::TraceLevel::off)
		return false;
	trace::Options trace;
	constexpr trace::Mode modes[] = {trace::Mode::off, trace::Mode::summary, trace::Mode::ops, trace::Mode::kernels};
	trace.mode = modes[static_cast<unsigned>(options.trace)];
	// The default pattern lies in AUTOAMP_DIR, which the recorder prunes; a pattern of the user's is his own.
	trace.pattern =
	    options.originOf(policy::Option::traceFile) == policy::Origin::fallback ? nullptr : options.traceFile.c_str();
	trace.dir = options.directory.c_str();
	trace.maxSize = options.traceMaxSize;
	trace.lookup = valueOf;
	trace.emulated = cuda::driver() && cuda::driver()->isEmulated;
	if (!process.recorder.open(trace))
		return false;
	describeDriver(process.recorder);
	describeOptions(process.recorder, options);
	tellUnseen(process.recorder); // now: a process that is killed tells nothing at its end
	return true;
}

// What the front left alone: each lookup and each linked program's first call counts as one.
void tellCopies(Process &process)
{
	trace::Lane *const lane = process.recorder.attach();
	for (unsigned i = 0; lane && i < entry::entryCount; i++) {
		trace::Row row;
		row.entry = entry::entryTable[i].name;
		row.library = op::name(entry::entryTable[i].library);
		row.decision = policy::name(policy::Verdict::kept);
		row.reason = policy::name(policy::Reason::second_copy);
		row.strategy = policy::name(policy::Strategy::fp32);
		for (unsigned calls = autoamp_front_second[i]; calls; calls--)
			lane->record(process.recorder.row(row), base::ticks(), 0, false);
	}
}

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

// ---- life

void onExit(int status, void *)
{
	const base::CallerState callerState;
	if (stage.load(std::memory_order_acquire) != Stage::on || !theProcess.load()->isTracing)
		return;
	trace::cupti::finish();
	drainScalerEvents(*theProcess.load(), true);
	tellUnseen(theProcess.load()->recorder);
	tellCopies(*theProcess.load());
	theProcess.load()->recorder.close(status);
}

void beforeFork()
{
	lockSites();
	op::lockDescriptors();
	if (stage.load(std::memory_order_acquire) == Stage::on)
		theProcess.load()->recorder.beforeFork();
}

void afterForkInParent()
{
	if (stage.load(std::memory_order_acquire) == Stage::on)
		theProcess.load()->recorder.afterForkInParent();
	op::unlockDescriptors();
	unlockSites();
}

// The child keeps the configuration and the sites; CUDA does not work there, and the trace is the parent's until the
// child's first call opens its own.
void afterForkInChild()
{
	Stage at = stage.load(std::memory_order_acquire);
	if (at == Stage::starting)
		stage.store(Stage::none, std::memory_order_release); // whoever was starting is not here
	if (at == Stage::on) {
		theProcess.load()->recorder.afterForkInChild(keepThisThread());
		theProcess.load()->isForked.store(theProcess.load()->isTracing, std::memory_order_release);
	}
	forgetCapture();
	trace::cupti::forget();
	reroute::forgetContexts();
	op::unlockDescriptors();
	unlockSites();
}

Process *start()
{
	static std::atomic<bool> isWatching{false};
	if (!isWatching.exchange(true)) { // again in a child that was born during the start
		pthread_atfork(beforeFork, afterForkInParent, afterForkInChild);
		on_exit(onExit, nullptr);
	}
	const Policy *const configured = processPolicy();
	if (!configured || !(configured->options.enabled || isWoken))
		return nullptr;
	const policy::Options &options = configured->options;
	auto *process = new Process{options, {}, {}, {}, false, {}, {}};
	process->environment.tf32Allowed = options.tf32Allowed;
	process->environment.emulatesSingle = options.emulatesSingle;
	process->settings.memoryBudget = options.memory;
	process->settings.isScaling = options.scaling == policy::Scaling::automatic;
	process->isTracing = openTrace(*process);
	limitCapture(*process);
	const bool isFixed = options.originOf(policy::Option::level) == policy::Origin::environment;
	isIdle = options.level == policy::Level::O0 && isFixed && !process->isTracing;
	// Before another thread is let in: its first kernels would be nobody's.
	if (process->isTracing && options.trace == policy::TraceLevel::kernels)
		watchLaunches(*process);
	if (process->isTracing)
		watchRefusedKernels(*process);
	logStart(*process);
	return process;
}

} // namespace

constinit std::atomic<bool> isIdle{false};

constinit std::atomic<Process *> theProcess{nullptr};

std::span<const char *const> entryNames()
{
	// No guard to wait for: a child that is born meanwhile would wait for ever.
	static constexpr auto names = [] {
		std::array<const char *, entry::entryCount> made = {};
		for (unsigned i = 0; i < entry::entryCount; i++)
			made[i] = entry::entryTable[i].name;
		return made;
	}();
	return names;
}

policy::ParsedOptions readConfiguration()
{
	return policy::configure(policy::processEnvironment(), entryNames(), programName());
}

Process *startProcess()
{
	const base::CallerState callerState;
	for (;;) {
		Stage now = stage.load(std::memory_order_acquire);
		if (now == Stage::on)
			return theProcess.load(std::memory_order_acquire);
		if (now == Stage::off)
			return nullptr;
		if (now == Stage::starting) {
			awaitStart();
			continue;
		}
		// A child born during the start would find it begun and nobody there to end it, or a lock of libc held for
		// ever.
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

void meetFirst(Process &process, op::Library library, const void *known)
{
	const base::CallerState callerState;
	const ForkHold hold;
	const unsigned bit = 1u << static_cast<unsigned>(library);
	if (process.met.fetch_or(bit, std::memory_order_relaxed) & bit)
		return;
	const bool isDnn = library == op::Library::cudnn;
	if (!isDnn)
		op::cublasLt(known);
	if (library == op::Library::cublaslt || (!process.isTracing && !base::logs(base::LogLevel::info)))
		return;
	using GetProperty = int(int, int *);
	const char *const name = isDnn ? "cudnnGetProperty" : "cublasGetProperty";
	if (auto *get = reinterpret_cast<GetProperty *>(cuda::beside(known, name))) {
		int part[3] = {};
		if (get(0, &part[0]) == 0 && get(1, &part[1]) == 0 && get(2, &part[2]) == 0) {
			char text[48];
			std::snprintf(text, sizeof text, "%d.%d.%d", part[0], part[1], part[2]);
			process.recorder.property("version", op::name(library), text);
			base::log(base::LogLevel::info, "%s %s", op::name(library), text);
		} else {
			base::leaveFault(name);
		}
	}
}

void wakeProcess()
{
	if (isWoken.load(std::memory_order_relaxed) || isWoken.exchange(true))
		return;
	awaitStart();
	if (stage.load(std::memory_order_acquire) == Stage::off) {
		stage.store(Stage::none, std::memory_order_release);
		isIdle = false;
	}
}

void reopenTrace(Process &process)
{
	if (process.isForked.exchange(false, std::memory_order_acq_rel)) {
		const base::CallerState callerState;
		openTrace(process);
		limitCapture(process);
		if (process.options.trace == policy::TraceLevel::kernels)
			process.recorder.note(trace::noteOfKernels, "CUPTI does not work in a forked child");
		process.met = 0;
	}
}

bool deviceAt(const Process &process, int ordinal, policy::Device &device)
{
	const cuda::Driver *driver = cuda::driver();
	if (!driver) {
		constexpr int nobodysFault = 90; // of the GPU there is nothing to say: driver_too_old
		device = {&policy::gpuConstants(process.options.gpuModel, nullptr, 0), nobodysFault, false, false};
		return true;
	}
	const cuda::DeviceFacts *facts = cuda::deviceFacts(*driver, ordinal);
	if (!facts)
		return false;
	device = {&policy::gpuConstants(process.options.gpuModel, facts->name, facts->capability), facts->capability,
	          driver->version >= policy::Device::oldestDriver};
	return true;
}

} // namespace autoamp::core
