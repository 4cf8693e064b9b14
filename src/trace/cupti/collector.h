// Kernel tracing by CUPTI: the call that launched each kernel, and the kernel's times. One per process, opt-in. start()
// runs at the first call of the process, finish() at its exit, forget() in a forked child. Other functions: any thread.
#pragma once

#include "src/trace/write/recorder.h"

#include <atomic>
#include <cstdint>

namespace autoamp::trace::cupti {

// The owner of the work that a thread launches: a row, one of its calls, and whether the kernels are autoamp's. 0: no
// intercepted call.
using Launcher = uint64_t;
constexpr Launcher launcherOurs = uint64_t{1} << 63;
// call: Kernel::call. Calls of lanes beyond the 2047th, and calls beyond the first 2^32 of a lane, are not
// distinguished.
constexpr Launcher launcherOf(RowId row, uint64_t call)
{
	return uint64_t{row} << 43 | (call >> 43 ? 0 : call);
}

extern std::atomic<bool> isOn;

// Starts kernel tracing. If CUPTI is absent or used by another tool, tracing stays off; a log line and a note give the
// reason. The first later error switches tracing off in the same way. path: AUTOAMP_CUPTI_PATH. current: returns the
// calling thread's launcher, for work that it launches or for a graph node that it creates. isWanted: returns whether
// kernels launched now are recorded. watchExit: registers an exit handler that calls finish(). CUPTI destroys objects
// in its own exit handlers, and crashes if it is called after them. So this is called when CUPTI has started, which was
// enough on an H100, and again at the first launches and for each new buffer, because CUPTI makes objects later too.
void start(Recorder &recorder, const char *path, Launcher (*current)(bool isNode), bool (*isWanted)(),
           void (*watchExit)());
// Called when the result of isWanted may have changed. Any thread. Calls CUPTI only if it has changed.
void renew();
// Waits for the records that CUPTI still has. Nothing is recorded afterwards.
void finish();
// For a forked child, where no CUPTI function may be called.
void forget();

} // namespace autoamp::trace::cupti
