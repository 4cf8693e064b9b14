// The original functions by caller. Any thread.
#include "inject/atomics.h"
#include "inject/cpu/originals.h"
#include "inject/cpu/separation.h"
#include "inject/fork.h"

using namespace autoamp::front;

namespace {

// The results for callers whose library is in their own scope, until an object is unloaded. Append-only; without a free
// place, each call resolves.
struct Known {
	const void *caller;
	unsigned row, closes;
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

unsigned closes()
{
	return __atomic_load_n(&autoamp_cpu_closes, __ATOMIC_ACQUIRE);
}

const Known *findKnown(unsigned row, const void *caller)
{
	const Known *const found = load(placeOf(row, caller));
	const bool isValid = found && found->caller == caller && found->row == row && found->closes == closes();
	return isValid ? found : nullptr;
}

void remember(unsigned row, const void *caller, unsigned before, const Original &original)
{
	const unsigned number = __atomic_fetch_add(&knownCount, 1, __ATOMIC_RELAXED);
	if (number >= knownLimit) {
		__atomic_store_n(&knownCount, knownLimit, __ATOMIC_RELAXED);
		return;
	}
	known[number] = {caller, row, before, original};
	store(placeOf(row, caller), &known[number]);
}

} // namespace

extern "C" void *autoamp_cpu_original(unsigned slot, const void *caller, bool *wide)
{
	if (const Known *const found = findKnown(slot, caller)) {
		*wide = found->original.isWide;
		return found->original.function;
	}
	separatePlugins();
	const Resolving resolving;
	const unsigned before = closes();
	const Original original = resolveOriginal(slot, caller, resolving.hasLoader);
	if (original.function && resolving.hasLoader)
		remember(slot, caller, before, original);
	*wide = original.isWide;
	return original.function;
}
