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
	               slot = (version < versionCount ? version : 0) * entryCount + index;
	void *const found = resolveOriginal(slot, nullptr, resolving.hasLoader);
	return found && (!resolving.hasLoader || keepOriginal(index, found, nullptr)) ? found : nullptr;
}

// Called by a lazy slot. Returns the target of the call and stores it in the slot. If the library is not loaded, the
// slot stays lazy, because it may be loaded later. Each slot is resolved separately: its caller determines where the
// original function is searched.
extern "C" HIDDEN void *autoamp_front_resolve(unsigned slot, const void *caller)
{
	rebindObjects();
	const Resolving resolving;
	const unsigned index = slot % entryCount;
	void *target = resolveOriginal(slot, caller, resolving.hasLoader);
	if (!target)
		return reinterpret_cast<void *>(slot / entryCount == older ? absent : entries[index].library.absent);
	if (!resolving.hasLoader) {
		count(autoamp_front_unseen, caller);
		return target;
	}
	if (!keepOriginal(index, target, caller))
		count(autoamp_front_second[index], caller);
	else if (const Core *core = findCore(); core != &untouched)
		target = core->wrappers[index];
	store(autoamp_front_slots[slot], target);
	return target;
}
