// The first call of a slot. Any thread.
#include "inject/cpu/originals.h"
#include "inject/fork.h"
#include "inject/message.h"
#include "inject/open_core.h"

#include <cstdlib>

using namespace autoamp::front;

extern "C" {
unsigned autoamp_cpu_unseen;
}

// Called by a lazy slot. Returns the target of the call. Stores it in the slot if it is right for all callers: the
// wrapper of the core, which finds the library of each caller, or a function that all callers share.
extern "C" HIDDEN void *autoamp_front_resolve(unsigned slot, const void *caller)
{
	bool isWide;
	unsigned closes;
	if (load(decision) == &untouched) // without a lock
		if (void *const function = autoamp_cpu_original(slot, caller, &isWide, &closes))
			return function;
	const Resolving resolving;
	const Original original = resolveOriginal(slot, caller, resolving.hasLoader);
	if (!original.function) { // without autoamp, the weak reference would be null
		sayAbsent(routineNames[slot % blasEntryCount]);
		abort();
	}
	if (!resolving.hasLoader) {
		__atomic_add_fetch(&autoamp_cpu_unseen, 1, __ATOMIC_RELAXED);
		return original.function;
	}
	const Core *const core = original.isOther ? &untouched : findCore();
	void *const target = core == &untouched ? original.function : core->wrappers[slot];
	if (core != &untouched || original.isShared)
		store(autoamp_front_slots[slot], target);
	return target;
}
