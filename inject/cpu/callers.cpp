// The original functions by caller. Any thread.
#include "inject/atomics.h"
#include "inject/cpu/originals.h"
#include "inject/cpu/separation.h"
#include "inject/fork.h"

using namespace autoamp::front;

namespace {

// The results by caller. Valid until an object is loaded after another one was unloaded, maybe at its address.
// Append-only. Without a free place, or if loaded objects are not counted, each call resolves.
struct Known {
	const void *caller;
	unsigned row, unloads;
	Original original;
};
constexpr unsigned knownLimit = 1024;
constinit Known known[knownLimit] = {};
unsigned knownCount;
const Known *places[knownLimit];

const Known *&placeOf(unsigned row, const void *caller)
{
	return places[(reinterpret_cast<uintptr_t>(caller) / 4 + row * 37) % knownLimit];
}

struct Counts {
	unsigned loads, unloads;
};

int getCounts(dl_phdr_info *info, size_t, void *counts)
{
	*static_cast<Counts *>(counts) = {static_cast<unsigned>(info->dlpi_adds), static_cast<unsigned>(info->dlpi_subs)};
	return 1; // all objects contain the same numbers
}

// The objects that were unloaded before the latest one was loaded. Programs unload in ways that no hook sees.
unsigned unloads()
{
	static Counts latest;
	Counts counts;
	__atomic_load(&latest, &counts, __ATOMIC_ACQUIRE);
	if (counts.loads != load(loadCount())) {
		dl_iterate_phdr(getCounts, &counts);
		__atomic_store(&latest, &counts, __ATOMIC_RELEASE);
	}
	return counts.unloads;
}

const Known *findKnown(unsigned row, const void *caller, unsigned unloads)
{
	const Known *const found = load(placeOf(row, caller));
	const bool isValid = found && found->caller == caller && found->row == row && found->unloads == unloads;
	return isValid ? found : nullptr;
}

void remember(unsigned row, const void *caller, unsigned unloads, const Original &original)
{
	const unsigned number = __atomic_fetch_add(&knownCount, 1, __ATOMIC_RELAXED);
	if (number >= knownLimit) {
		__atomic_store_n(&knownCount, knownLimit, __ATOMIC_RELAXED);
		return;
	}
	known[number] = {caller, row, unloads, original};
	store(placeOf(row, caller), &known[number]);
}

} // namespace

extern "C" void *autoamp_cpu_original(unsigned slot, const void *caller, bool *wide)
{
	const bool isCounted = load(loadCount()) != 0;
	const unsigned before = isCounted ? unloads() : 0;
	if (const Known *const found = isCounted ? findKnown(slot, caller, before) : nullptr) {
		*wide = found->original.isWide;
		return found->original.function;
	}
	separatePlugins();
	const Resolving resolving;
	const Original original = resolveOriginal(slot, caller, resolving.hasLoader);
	if (original.function && resolving.hasLoader && isCounted)
		remember(slot, caller, before, original);
	*wide = original.isWide;
	return original.function;
}
