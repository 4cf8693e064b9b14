// What lives as long as the process: the configuration, the trace, the facts of each device. Made at the first
// intercepted call, never destroyed. Any thread.
#pragma once

#include "src/op/gemm.h"
#include "src/policy/decide.h"
#include "src/policy/options.h"
#include "src/reroute/gemm.h"
#include "src/trace/recorder.h"

#include <atomic>

namespace autoamp::core {

struct Process {
	policy::Options options;
	op::VendorEnvironment environment;
	reroute::Settings settings;
	trace::Recorder recorder;
	bool isTracing = false;
	std::atomic<bool> isForked{false}; // a child that has yet to open its own trace
	std::atomic<unsigned> met{0};      // bits of the vendor's libraries that the trace knows the version of
};

// Nothing to change and nothing to tell (off, or O0 without a trace): calls go straight through.
extern std::atomic<bool> isIdle;

// Of the entry tables, by row.
std::span<const char *const> entryNames();
// What the environment and the files say.
policy::ParsedOptions readConfiguration();

// Null: autoamp is off in this process (AUTOAMP_ENABLED=0, or a variable is wrong and stderr says which).
Process *startProcess();
extern std::atomic<Process *> theProcess;
inline Process *process()
{
	Process *const process = theProcess.load(std::memory_order_acquire);
	return __builtin_expect(process != nullptr, 1) ? process : startProcess();
}

// At a library's first call, of which `known` is a true function: its version for the trace, and what must be looked up
// while the loader is free; at a later one another thread may be holding it.
void meetFirst(Process &process, op::Library library, const void *known);
inline void meet(Process &process, op::Library library, const void *known)
{
	if (__builtin_expect(!(process.met.load(std::memory_order_relaxed) >> static_cast<unsigned>(library) & 1u), 0))
		meetFirst(process, library, known);
}

// A region is enabled: where a file disables everything, calls begin to count.
void wakeProcess();

// In a forked child, at its first call: opens its own trace.
void reopenTrace(Process &process);

// For the policy. False: the driver did not answer this time, so nothing may be decided for good. Without any driver
// there is a device that can load no kernels.
bool deviceAt(const Process &process, int ordinal, policy::Device &device);

} // namespace autoamp::core
