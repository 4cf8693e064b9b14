// The original functions by caller. Any thread.
#include "inject/atomics.h"
#include "inject/cpu/closes.h"
#include "inject/cpu/originals.h"
#include "inject/cpu/separation.h"
#include "inject/fork.h"
#include "inject/open_core.h"

using namespace autoamp::front;

namespace {

// Answers, until the object of the caller or of the function is unloaded.
enum { callerWord, functionWord, rowWord, isWideWord, wordCount };
using Words = uintptr_t[wordCount];
constexpr unsigned knownBits = 11;
Record<wordCount> known[1 << knownBits];

Record<wordCount> &placeOf(unsigned row, const void *caller)
{
	return known[(reinterpret_cast<uintptr_t>(caller) + row) * 0x9e3779b97f4a7c15u >> (64 - knownBits)];
}

void remember(unsigned row, const void *caller, const Original &original)
{
	auto &place = placeOf(row, caller);
	Words words;
	unsigned version;
	if (place.read(words, version))
		place.write(
		    {reinterpret_cast<uintptr_t>(caller), reinterpret_cast<uintptr_t>(original.function), row, original.isWide},
		    version);
}

} // namespace

void autoamp::front::forget(uintptr_t begin, uintptr_t end)
{
	for (auto &place : known) {
		Words words;
		unsigned version;
		const auto isInside = [&](uintptr_t address) { return begin <= address && address < end; };
		if (place.read(words, version) && (isInside(words[callerWord]) || isInside(words[functionWord])))
			place.write({}, version);
	}
}

extern "C" void *autoamp_cpu_original(unsigned slot, const void *caller, bool *wide, unsigned *closes)
{
	const unsigned before = load(autoamp_cpu_closes);
	Words words;
	unsigned version;
	if (placeOf(slot, caller).read(words, version) && words[rowWord] == slot &&
	    words[callerWord] == reinterpret_cast<uintptr_t>(caller)) {
		*wide = words[isWideWord], *closes = before;
		return reinterpret_cast<void *>(words[functionWord]);
	}
	separatePlugins();
	const Resolving resolving;
	const Original original = resolveOriginal(slot, caller, resolving.hasLoader);
	*wide = original.isWide;
	*closes = 0;
	if (!original.function || !resolving.hasLoader)
		return original.function;
	if (load(decision) != &untouched || !watch(original.function))
		pin(original.function);
	if (watch(caller)) {
		*closes = before;
		remember(slot, caller, original);
	}
	return original.function;
}
