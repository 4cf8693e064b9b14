// The original functions by caller. Any thread.
#include "inject/atomics.h"
#include "inject/cpu/originals.h"
#include "inject/cpu/separation.h"
#include "inject/fork.h"

using namespace autoamp::front;

namespace {

// A result, by caller. Valid until an object is loaded after another one was unloaded, maybe at the address of the
// caller.
struct Known {
	unsigned writes; // odd: a thread writes. A reader uses its copy if this number is even and was the same after it
	const void *caller;
	void *function;
	uint64_t key; // unloads, row, isWide
};
constexpr unsigned knownCount = 1024;
Known known[knownCount];

Known &placeOf(unsigned row, const void *caller)
{
	return known[(reinterpret_cast<uintptr_t>(caller) / 4 + row * 37) % knownCount];
}

int getCounts(dl_phdr_info *info, size_t, void *counts)
{
	*static_cast<uint64_t *>(counts) = info->dlpi_adds << 32 | static_cast<unsigned>(info->dlpi_subs);
	return 1; // all objects contain the same numbers
}

// The objects that were unloaded before the latest one was loaded. Programs unload in ways that no hook sees.
unsigned unloads()
{
	static uint64_t latest; // loads, unloads
	uint64_t counts = load(latest);
	if (counts >> 32 != load(loadCount())) {
		dl_iterate_phdr(getCounts, &counts);
		store(latest, counts);
	}
	return static_cast<unsigned>(counts);
}

constexpr uint64_t wideBit = 1;

uint64_t keyOf(unsigned row, unsigned unloads)
{
	return uint64_t{unloads} << 32 | row << 1;
}

// Null: not known.
Original findKnown(unsigned row, const void *caller, unsigned unloads)
{
	const Known &place = placeOf(row, caller);
	const unsigned writes = load(place.writes);
	const void *const its = load(place.caller);
	void *const function = load(place.function);
	const uint64_t key = load(place.key);
	const bool isWhole = writes % 2 == 0 && load(place.writes) == writes;
	if (!isWhole || its != caller || (key & ~wideBit) != keyOf(row, unloads))
		return {};
	return {function, (key & wideBit) != 0};
}

void remember(unsigned row, const void *caller, unsigned unloads, const Original &original)
{
	Known &place = placeOf(row, caller);
	unsigned writes = load(place.writes);
	if (writes % 2 ||
	    !__atomic_compare_exchange_n(&place.writes, &writes, writes + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	store(place.caller, caller);
	store(place.function, original.function);
	store(place.key, keyOf(row, unloads) | original.isWide);
	store(place.writes, writes + 2);
}

} // namespace

extern "C" void *autoamp_cpu_original(unsigned slot, const void *caller, bool *wide)
{
	const bool isCounted = load(loadCount()) != 0; // else each call resolves
	const unsigned before = isCounted ? unloads() : 0;
	Original original = isCounted ? findKnown(slot, caller, before) : Original{};
	if (!original.function) {
		separatePlugins();
		const Resolving resolving;
		original = resolveOriginal(slot, caller, resolving.hasLoader);
		if (original.function && resolving.hasLoader && isCounted)
			remember(slot, caller, before, original);
	}
	*wide = original.isWide;
	return original.function;
}
