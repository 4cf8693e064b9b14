// The interface between front and core. Any thread; nothing here allocates or takes a lock. The core is linked to the
// front, so the loader resolves their symbols, and a missing symbol makes dlopen fail.
#pragma once

#define AUTOAMP_IMPLEMENTATION
#include "inject/autoamp.h"

#define AUTOAMP_EXPORT __attribute__((visibility("default")))
#define AUTOAMP_WEAK __attribute__((visibility("default"), weak))

namespace autoamp::front {

// One block per thread, zero at the start, at most 64 bytes. Owned by the front: its memory is reserved before main, so
// initial-exec access cannot run out of space, and the dlsym hook can read `depth`.
struct ThreadBlock {
	int depth;          // > 0 inside a wrapper: dlsym and calls bypass interception
	int resolving;      // > 0 between autoamp_front_hold_forks and autoamp_front_release_forks
	void *core;         // per-thread state of the core
	void *regions;      // open regions of this thread, owned by the core; null: none so far
	unsigned region[2]; // region numbers of its CUDA calls and CPU calls, given by the core; 0: the configuration
	unsigned epoch;     // epoch of the regions shared by all threads; if it differs, `region` is out of date
	void *callerState;  // base::CallerState of the call in progress, owned by the core; null: none
	void *passed;       // memos in `core` (call/passed_product.h); null: none
};
static_assert(sizeof(ThreadBlock) <= 64);

// The implementations of the functions in autoamp.h. receiveRanges: called by NVTX with its function tables.
// profilerSwitched: called at each use of the profiler switch, after autoamp_front_profiled was updated.
struct Regions {
	decltype(&autoamp_enter) enter;
	decltype(&autoamp_leave) leave;
	decltype(&autoamp_require_regions_of) require; // null: for all devices
	decltype(&autoamp_current) current;
	decltype(&autoamp_active) active;
	decltype(&autoamp_error) error;
	int (*receiveRanges)(const void *tables);
	void (*profilerSwitched)();
};

// The implementations of the gradient scaler's functions in autoamp.h.
struct Scalers {
	decltype(&autoamp_record_update) record;
	decltype(&autoamp_scaler_create) create;
	decltype(&autoamp_scaler_destroy) destroy;
	decltype(&autoamp_scaler_scale) scale;
	decltype(&autoamp_scaler_unscale) unscale;
	decltype(&autoamp_scaler_step) step;
	decltype(&autoamp_scaler_update) update;
	decltype(&autoamp_scaler_get) get;
	decltype(&autoamp_scaler_load) load;
	decltype(&autoamp_scaler_pointers) pointers;
};

struct Core {
	unsigned abi, count;
	void *const *wrappers;  // by row of the entry tables, typed functions
	const Regions *regions; // null: this core has none
	const Scalers *scalers; // null: this core has none
};

constexpr unsigned abi = 14;

// broken: this process was forked while another thread was inside dlopen, dlclose or dl_iterate_phdr. These functions
// would hang or end the process.
enum class Loading : int { nobody, self, other, broken };

// Copies of a BLAS that a lookup by name can lead to, after number 0, which is the copy that the loader binds the
// caller to.
constexpr unsigned blasCopyCount = 4;
// OpenMP libraries in which parallel regions are noticed.
constexpr unsigned openMpLimit = 4;

} // namespace autoamp::front

extern "C" {
// Front.
AUTOAMP_EXPORT extern constinit thread_local autoamp::front::ThreadBlock
    autoamp_front_thread; // constinit: otherwise g++ calls a TLS wrapper function
// Number of profiler switches, counted by the front: odd between cudaProfilerStart and cudaProfilerStop.
AUTOAMP_EXPORT extern unsigned autoamp_front_profiled;
// Between these two, forks of other threads wait, at most a second; autoamp_front_hold_forks waits for forks in the
// same way. Use them around first-call work that takes a lock of libc or the loader: a child forked meanwhile would
// inherit a lock that is never released. Calls nest.
AUTOAMP_EXPORT void autoamp_front_hold_forks();
AUTOAMP_EXPORT void autoamp_front_release_forks();
// The thread that is inside dlopen or dlclose, for example in a constructor. Others may wait for it then.
AUTOAMP_EXPORT autoamp::front::Loading autoamp_front_loading();
// dl_iterate_phdr, which also works in a broken process.
AUTOAMP_EXPORT int autoamp_front_iterate(int (*visit)(struct dl_phdr_info *, size_t, void *), void *data);
// Returns whether descriptor 2 is the same file as when the front was loaded. A daemon may have closed it and opened
// another file there.
AUTOAMP_EXPORT bool autoamp_front_has_stderr();

// The front for CUDA libraries. Weak, because it may be absent.
AUTOAMP_WEAK extern void *autoamp_front_originals[]; // original functions by row; null: call autoamp_front_original
// From now on, launches lead to these functions (by row of launches.inc), which call the original function. Until then
// a slot of launches.inc leads to its original function, and a launch does not open the core.
AUTOAMP_WEAK void autoamp_front_divert(void *const *functions);
AUTOAMP_WEAK void *autoamp_front_original(unsigned index); // null: no such library in this process
AUTOAMP_WEAK extern unsigned autoamp_front_unseen;   // calls not intercepted because opening the core could deadlock
AUTOAMP_WEAK extern unsigned autoamp_front_second[]; // by row; uses of a second library copy, not intercepted
// Called by NVTX if NVTX_INJECTION64_PATH names the front, once for each object that contains a copy of NVTX. Returns 0
// to decline.
AUTOAMP_EXPORT int InitializeInjectionNvtx2(const void *tables);

// The front for a CPU BLAS. Weak, because it may be absent. The original function of a row for the code at `caller`,
// and whether its integers have 64 bits. Null: no library in this process has it. `closes`: the answer is right while
// autoamp_cpu_closes has this value; 0: only for this call.
AUTOAMP_WEAK void *autoamp_cpu_original(unsigned slot, const void *caller, bool *wide, unsigned *closes);
AUTOAMP_WEAK extern unsigned autoamp_cpu_unseen; // as autoamp_front_unseen
AUTOAMP_WEAK extern int (
    *autoamp_cpu_in_parallel[autoamp::front::openMpLimit + 1])(); // omp_in_parallel; ends with null
AUTOAMP_WEAK extern unsigned autoamp_cpu_closes; // never 0; a change ends knowledge about return addresses

// Core: its tables for the fronts. Constant data: it needs no initialization, and threads may race to read it.
AUTOAMP_EXPORT extern const autoamp::front::Core autoamp_core, autoamp_cpu_core;
}
