// The slots of the front for a CPU BLAS, by number: copy * blasEntryCount + row. Any thread.
#pragma once

#include "inject/entry_index.h"
#include "inject/front.h"
#include "inject/loader.h"

extern "C" {
HIDDEN extern void *autoamp_front_slots[];
HIDDEN extern const int autoamp_front_entries[]; // offsets from this table
HIDDEN extern bool autoamp_front_passes;         // true: lookups of names that no routine begins with bypass the hook
}

namespace autoamp::front {

using entry::blasEntryCount;
// The slots of copy 0 are the exported names. Their callers can have different libraries, because a plug-in has its own
// scope. The slots of the other copies are results of lookups: each copy is one library.
constexpr unsigned slotCount = (1 + blasCopyCount) * blasEntryCount;

inline void *entryOf(unsigned slot)
{
	const auto *base = reinterpret_cast<const char *>(autoamp_front_entries);
	return const_cast<char *>(base + autoamp_front_entries[slot]);
}

} // namespace autoamp::front
