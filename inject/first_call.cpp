// The first call of a slot, and the original functions that the core requests. Any thread.
#include "inject/fork.h"
#include "inject/libraries.h"
#include "inject/open_core.h"
#include "inject/originals.h"
#include "inject/rebinding.h"

using namespace autoamp::front;

extern "C" void *autoamp_front_original(unsigned index)
{
	if (void *known = load(autoamp_front_originals[index]))
		return known;
	const Resolving resolving;
	const unsigned version = load(entries[index].library.versionInUse),
	               slot = (version < versionCount ? version : 0) * rowCount + index;
	void *const found = resolveOriginal(slot, nullptr, resolving.hasLoader);
	return found && (!resolving.hasLoader || keepOriginal(index, found, nullptr)) ? found : nullptr;
}

namespace {

void *const *divertedLaunches; // null: kernels are not traced

// Lets the slot of a launch function lead to the core's function if it leads to the original function. Slots of a
// second copy of the runtime lead to another function. Called by both threads of a race between the first launch and
// autoamp_front_divert().
void divert(unsigned slot, void *const *functions)
{
	const unsigned index = slot % rowCount;
	void *original = load(autoamp_front_originals[index]);
	if (functions && original)
		__atomic_compare_exchange_n(&autoamp_front_slots[slot], &original, functions[index - vendorEntryCount], false,
		                            __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE);
}

} // namespace

extern "C" void autoamp_front_divert(void *const *functions)
{
	__atomic_store_n(&divertedLaunches, functions, __ATOMIC_SEQ_CST);
	for (unsigned slot = 0; slot < versionCount * rowCount; slot++)
		if (slot % rowCount >= vendorEntryCount)
			divert(slot, functions);
}

// Called by a lazy slot. Returns the target of the call and stores it in the slot. If the library is not loaded, the
// slot stays lazy, because it may be loaded later. Each slot is resolved separately: its caller determines where the
// original function is searched.
extern "C" HIDDEN void *autoamp_front_resolve(unsigned slot, const void *caller)
{
	rebindObjects();
	const Resolving resolving;
	const unsigned index = slot % rowCount;
	void *target = resolveOriginal(slot, caller, resolving.hasLoader);
	if (!target)
		return reinterpret_cast<void *>(slot / rowCount == older ? absent : entries[index].library.absent);
	const bool isCall = index < vendorEntryCount;
	if (!resolving.hasLoader) {
		if (isCall)
			count(autoamp_front_unseen, caller);
		return target;
	}
	const bool isOriginal = keepOriginal(index, target, caller);
	if (!isCall) {
		// Before the load: autoamp_front_divert() stores in the opposite order.
		__atomic_store_n(&autoamp_front_slots[slot], target, __ATOMIC_SEQ_CST);
		divert(slot, __atomic_load_n(&divertedLaunches, __ATOMIC_SEQ_CST));
		return load(autoamp_front_slots[slot]);
	}
	if (!isOriginal)
		count(autoamp_front_second[index], caller);
	else if (const Core *core = findCore(); core != &untouched)
		target = core->wrappers[index];
	store(autoamp_front_slots[slot], target);
	return target;
}
