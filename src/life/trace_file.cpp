#include "src/life/trace_file.h"

#include "inject/entry_table.h"
#include "inject/front.h"
#include "src/base/clock.h"
#include "src/base/faults.h"
#include "src/base/log.h"
#include "src/config/environment.h"
#include "src/cuda/context.h"
#include "src/policy/cpu_calibration.h"
#include "src/policy/decision.h"

#include <cstdio>
#include <dlfcn.h>
#include <link.h>

namespace autoamp::core {

namespace {

const char *valueOf(const char *name)
{
	return policy::environmentValue(policy::processEnvironment(), name);
}

void describeDriver(trace::Recorder &recorder)
{
	recorder.property("version", "autoamp", AUTOAMP_VERSION);
	if (const cuda::Driver *driver = cuda::driver()) {
		char text[24];
		std::snprintf(text, sizeof text, "%d.%d", driver->version / 1000, driver->version % 1000 / 10);
		recorder.property("version", "cuda_driver", text);
		int count = 0;
		// A program may call cuBLAS before it initializes CUDA: with a null handle, for example.
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

void describeOptions(trace::Recorder &recorder, const policy::Options &options)
{
	const auto table = policy::optionTable();
	for (size_t i = 0; i < table.size(); i++)
		recorder.property("config", table[i].name, options.value[i].c_str(), options.place[i].c_str());
	if (!options.tf32Allowed)
		recorder.property("config", policy::tf32Override, "0", "environment");
	for (size_t i = 0; i < options.rules->list.size(); i++) {
		const policy::Rule &rule = options.rules->list[i];
		recorder.property("rule", std::to_string(i + 1).c_str(), policy::textOf(rule).c_str(), rule.place.c_str());
	}
}

// The cost model's constants for calls of a CPU BLAS, which depend on the machine.
void describeCpu(trace::Recorder &recorder, const policy::Cpu &cpu)
{
	recorder.property("cpu", "constants", policy::textOf(cpu, "", "").c_str(), cpu.name);
}

void recordMissedCalls(trace::Recorder &recorder)
{
	for (unsigned *calls : {&autoamp_front_unseen, &autoamp_cpu_unseen})
		if (calls) // null: the front is not in the process
			recorder.addLost(__atomic_exchange_n(calls, 0, __ATOMIC_RELAXED));
}

// Records uses of second library copies, which the front does not intercept. Each lookup counts as one call, and so
// does the first call of each linked program.
void recordSecondCopies(Process &process)
{
	trace::Lane *const lane = process.recorder.attach();
	if (!&autoamp_front_second)
		return;
	for (unsigned i = 0; lane && i < entry::vendorEntryCount; i++) {
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

} // namespace

bool openTrace(Process &process)
{
	const policy::Options &options = process.options;
	if (options.trace == policy::TraceLevel::off)
		return false;
	if (options.traceFile.empty()) {
		base::log(base::LogLevel::warn, "no trace: none of AUTOAMP_DIR, XDG_STATE_HOME and HOME is set");
		return false;
	}
	trace::Options trace;
	constexpr trace::Mode modes[] = {trace::Mode::off, trace::Mode::summary, trace::Mode::ops, trace::Mode::kernels};
	trace.mode = modes[static_cast<unsigned>(options.trace)];
	// The default pattern is in AUTOAMP_DIR, which the recorder prunes. It does not prune files of a user-defined
	// pattern.
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
	if (autoamp_cpu_original) // the front for a CPU BLAS is in the process
		describeCpu(process.recorder, process.cpu);
	recordMissedCalls(process.recorder); // now: a killed process does not reach closeTrace()
	return true;
}

void closeTrace(Process &process, int status)
{
	recordMissedCalls(process.recorder);
	recordSecondCopies(process);
	process.recorder.close(status);
}

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
	for (const policy::EmulatorSetting &each : policy::emulatorSettings())
		if (const std::string &value = options.emulator[&each - policy::emulatorSettings().data()]; !value.empty())
			settings += std::string(settings.empty() ? "" : ", ") + each.name + "=" + value;
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

} // namespace autoamp::core
