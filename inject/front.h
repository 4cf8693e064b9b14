// What front and core know of each other. Any thread; nothing here allocates or locks.
// The core is linked to the front, so the loader does the plumbing and a mismatch is a failed dlopen.
#pragma once

#define AUTOAMP_IMPLEMENTATION
#include "inject/autoamp.h"

#define AUTOAMP_EXPORT __attribute__((visibility("default")))

namespace autoamp::front {

// One block a thread, zero at the start, at most 64 bytes. The front owns it: its memory is laid out before main, so
// initial-exec access can never run out of room, and the dlsym hook sees the door's guard.
struct ThreadBlock {
	int depth;         // > 0 inside a door: lookups get the truth, calls go to the truth
	int resolving;     // > 0 between autoamp_front_hold_forks and autoamp_front_release_forks
	void *core;        // the core's own per-thread state
	void *regions;     // the core's, too: those that this thread has open; null: none so far
	unsigned region;   // what its calls run in, by the core's count; 0: as the process was configured
	unsigned epoch;    // of what all threads share; another one: `region` is out of date
	void *callerState; // the state that the core keeps for the call in progress; null: none
};
static_assert(sizeof(ThreadBlock) <= 64);

// What stands behind autoamp.h, by the names there; NVTX's entry, which gets NVTX's own table of tables; and what is
// told when the profiler's switch was thrown.
struct Regions {
	decltype(&autoamp_enter) enter;
	decltype(&autoamp_leave) leave;
	decltype(&autoamp_current) current;
	decltype(&autoamp_active) active;
	decltype(&autoamp_error) error;
	int (*receiveRanges)(const void *tables);
	void (*profilerSwitched)();
};

struct Core {
	unsigned abi, count;
	void *const *doors;     // by row of the entry tables, typed functions
	const Regions *regions; // null: this core has none
};

constexpr unsigned abi = 5;

} // namespace autoamp::front

extern "C" {
// Front.
AUTOAMP_EXPORT extern constinit thread_local autoamp::front::ThreadBlock
    autoamp_front_thread;                                 // constinit: else g++ calls a wrapper
AUTOAMP_EXPORT extern void *autoamp_front_truths[];       // by row; null: ask autoamp_front_truth
AUTOAMP_EXPORT void *autoamp_front_truth(unsigned index); // null: no such library in this process
AUTOAMP_EXPORT extern unsigned autoamp_front_unseen;      // calls that went by while the core could not be opened
AUTOAMP_EXPORT extern unsigned autoamp_front_second[];    // by row; how often a second copy's function was left alone
// By cudaProfilerStart and -Stop, which the front counts itself: odd between the two.
AUTOAMP_EXPORT extern unsigned autoamp_front_profiled;
// Forks of other threads wait meanwhile (a second at most), and these wait for forks: around whatever takes a lock of
// libc or the loader in a first call, because a child born then would inherit it held for ever. Nests.
AUTOAMP_EXPORT void autoamp_front_hold_forks();
AUTOAMP_EXPORT void autoamp_front_release_forks();
// Descriptor 2 is what it was when the front was loaded. A daemon may have closed it and opened a file of its own
// there.
AUTOAMP_EXPORT bool autoamp_front_has_stderr();
// By NVTX, in each object that brings a copy of it, where NVTX_INJECTION64_PATH leads here. 0: no, thank you.
AUTOAMP_EXPORT int InitializeInjectionNvtx2(const void *tables);
// Core: constant data, so that nothing has to be started and threads may race to read it.
AUTOAMP_EXPORT extern const autoamp::front::Core autoamp_core;
}
