// Data with the lifetime of the process: the configuration and the trace. Created at the first intercepted call
// (life/start.h), never destroyed. Any thread.
#pragma once

#include "src/config/options.h"
#include "src/lower/lowering.h"
#include "src/op/gemm.h"
#include "src/policy/cpu_model.h"
#include "src/trace/write/recorder.h"

#include <atomic>

namespace autoamp::core {

struct Process {
	policy::Options options;
	op::VendorEnvironment environment;
	lower::Settings settings;
	policy::Cpu cpu = {}; // constants of this CPU; the number of threads is that of each library
	trace::Recorder recorder;
	bool isTracing = false;
	std::atomic<bool> isForked{false};      // this is a forked child that has not opened its own trace
	std::atomic<unsigned> librariesSeen{0}; // by op::Library: the bit is set at the first call of the library
};

// Null: autoamp is not started, or is off.
extern std::atomic<Process *> theProcess;

// True if there is nothing to change or record (off, or O0 without a trace): wrappers then call the original function
// directly.
extern std::atomic<bool> isIdle;

} // namespace autoamp::core
