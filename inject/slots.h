// Data shared with slots.S, and the jump slots by number. Any thread.
#pragma once

#include "inject/entry_index.h"

#include <dlfcn.h>

#define HIDDEN __attribute__((visibility("hidden")))

extern "C" {
// Three slots per entry point: for references without a version, to the newer library (CUDA 13, cuDNN 9) and to the
// older one (CUDA 12, cuDNN 8).
HIDDEN extern void *autoamp_front_slots[];
HIDDEN extern const int autoamp_front_entries[]; // offsets from this table
// The original functions; null before haveLoader(). The hooks jump to them.
HIDDEN extern decltype(&dlsym) autoamp_front_dlsym;
HIDDEN extern decltype(&dlvsym) autoamp_front_dlvsym;
HIDDEN extern bool autoamp_front_passes; // true: lookups bypass the hook, except for cub*, cudn*, cuP*, cudaP* and I*
HIDDEN extern const char __ehdr_start[], _end[]; // the bounds of the front in memory
}

namespace autoamp::front {

using entry::entryCount;

// The loader binds by symbol version. The version of a vendor library is its SONAME; version 0 is for references
// without one. Slot number: version * entryCount + row of the entry point.
constexpr unsigned unversioned = 0, older = 2, versionCount = 3;

inline void *entryOf(unsigned version, unsigned index)
{
	const auto *base = reinterpret_cast<const char *>(autoamp_front_entries);
	return const_cast<char *>(base + autoamp_front_entries[version * entryCount + index]);
}

inline bool isFront(const void *address)
{
	return address >= __ehdr_start && address < _end;
}

inline bool isOurs(const void *function) // true: it is a slot
{
	return function >= entryOf(0, 0) && function <= entryOf(versionCount - 1, entryCount - 1);
}

} // namespace autoamp::front
