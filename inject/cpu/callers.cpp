// The original functions by caller. Any thread.
#include "inject/atomics.h"
#include "inject/cpu/closes.h"
#include "inject/cpu/originals.h"
#include "inject/cpu/separation.h"
#include "inject/fork.h"
#include "inject/open_core.h"

using namespace autoamp::front;

namespace {

// Answers. One that does not last is used only if the loader is locked for too long.
enum { callerWord, functionWord, rowWord, isWideWord, lastsWord, wordCount };
using Words = uintptr_t[wordCount];
constexpr unsigned knownBits = 11;
Record<wordCount> known[1 << knownBits];

Record<wordCount> &placeOf(unsigned row, const void *caller)
{
	return known[(reinterpret_cast<uintptr_t>(caller) + row) * 0x9e3779b97f4a7c15u >> (64 - knownBits)];
}

bool isAnswer(const Words &words, unsigned row, const void *caller)
{
	return words[callerWord] == reinterpret_cast<uintptr_t>(caller) && words[rowWord] == row;
}

// Returns false if an object was unloaded meanwhile: the answer may be about it, and does not last.
bool remember(unsigned row, const void *caller, const Original &original, bool lasts, unsigned closes)
{
	auto &place = placeOf(row, caller);
	const auto function = reinterpret_cast<uintptr_t>(original.function);
	Words words;
	unsigned version;
	if (!place.read(words, version) ||
	    !place.write({reinterpret_cast<uintptr_t>(caller), function, row, original.isWide, lasts}, version))
		return false;
	if (__atomic_fetch_add(&autoamp_cpu_closes, 0, __ATOMIC_SEQ_CST) == closes)
		return true;
	if (place.read(words, version) && isAnswer(words, row, caller))
		place.write({}, version);
	return false;
}

} // namespace

void autoamp::front::forget(uintptr_t begin, uintptr_t end)
{
	for (auto &place : known) {
		Words words;
		unsigned version;
		const auto isInside = [&](uintptr_t address) { return begin <= address && address < end; };
		if (!place.read(words, version))
			continue;
		if (isInside(words[functionWord])) {
			place.write({}, version);
		} else if (isInside(words[callerWord])) {
			words[lastsWord] = false;
			place.write(words, version);
		}
	}
}

extern "C" void *autoamp_cpu_original(unsigned slot, const void *caller, bool *wide, unsigned *closes)
{
	const unsigned before = load(autoamp_cpu_closes);
	Words words;
	unsigned version;
	const bool isKnown = placeOf(slot, caller).read(words, version) && isAnswer(words, slot, caller);
	*wide = isKnown && words[isWideWord];
	*closes = before;
	if (isKnown && words[lastsWord])
		return reinterpret_cast<void *>(words[functionWord]);
	*closes = 0;
	separatePlugins();
	const Resolving resolving;
	if (isKnown && !resolving.hasLoader)
		return reinterpret_cast<void *>(words[functionWord]);
	const Original original = resolveOriginal(slot, caller, resolving.hasLoader);
	*wide = original.isWide;
	const bool lasts = original.function && resolving.hasLoader && watch(caller);
	if ((lasts || original.staysLoaded) && remember(slot, caller, original, lasts, before) && lasts)
		*closes = before;
	return original.function;
}
