// What the device does, as CUPTI tells it: which call launched each kernel, and when it ran. One a process, opt-in.
// start, finish and forget: the process's first call, its exit, a forked child. The rest: any thread.
#pragma once

#include "src/trace/recorder.h"

#include <atomic>
#include <cstdint>

namespace autoamp::trace::cupti {

// Whose work a thread is launching: the calls of a row, one of its calls, and whether the kernels are ours. 0:
// nobody's.
using Launcher = uint64_t;
constexpr Launcher launcherOurs = uint64_t{1} << 63;
// call: Kernel::call; a lane beyond the 2047th, or a call beyond the first 2^32 of one, is not told apart.
constexpr Launcher launcherOf(RowId row, uint64_t call)
{
	return uint64_t{row} << 43 | (call >> 43 ? 0 : call);
}

extern std::atomic<bool> isOn;

// Begins to watch. It does not where CUPTI is absent, or somebody else's: one line in the log and a note say why. The
// first error does the same later. path: AUTOAMP_CUPTI_PATH; current: the calling thread's launcher, of work that it
// launches or of a graph node that it makes; isWanted: whether kernels launched now are recorded.
void start(Recorder &recorder, const char *path, Launcher (*current)(bool isNode), bool (*isWanted)());
// That may have changed. Any thread; only where it has, CUPTI is called.
void renew();
// What is still with CUPTI is waited for. Nothing is recorded afterwards.
void finish();
// Nothing of CUPTI may be called in a forked child.
void forget();

} // namespace autoamp::trace::cupti
