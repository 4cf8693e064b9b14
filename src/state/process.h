// Data with the lifetime of the process: the configuration and the trace. Made at the first intercepted call
// (life/start.h), never destroyed. Any thread.
#pragma once

#include "src/op/gemm.h"
#include "src/policy/options.h"
#include "src/reroute/lowering.h"
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

// Null: there is no process yet, or autoamp is off in it.
extern std::atomic<Process *> theProcess;

// Nothing to change and nothing to record (off, or O0 without a trace): calls run without a look at them.
extern std::atomic<bool> isIdle;

} // namespace autoamp::core
