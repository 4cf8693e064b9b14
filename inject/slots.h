// Data shared with slots.S, and the jump slots by number. Any thread.
#pragma once

#include "inject/launches.h"
#include "inject/loader.h"

extern "C" {
// Three slots per row: for references without a version, to the newer library (CUDA 13, cuDNN 9) and to the
// older one (CUDA 12, cuDNN 8).
HIDDEN extern void *autoamp_front_slots[];
HIDDEN extern const int autoamp_front_entries[]; // offsets from this table
HIDDEN extern bool autoamp_front_passes; // true: lookups bypass the hook, except for cub*, cudn*, cuP*, cudaG*, cudaL*,
                                         // cudaP*, __c* and I*
}

namespace autoamp::front {

using entry::vendorEntryCount;
constexpr unsigned rowCount = unsigned{vendorEntryCount} + entry::launchCount; // entry points, then launches.inc

// The loader binds by symbol version. The version of a vendor library is its SONAME; version 0 is for references
// without one. Slot number: version * rowCount + row.
constexpr unsigned unversioned = 0, older = 2, versionCount = 3;

inline void *entryOf(unsigned version, unsigned index)
{
	const auto *base = reinterpret_cast<const char *>(autoamp_front_entries);
	return const_cast<char *>(base + autoamp_front_entries[version * rowCount + index]);
}

inline bool isOurs(const void *function) // true: it is a slot
{
	return function >= entryOf(0, 0) && function <= entryOf(versionCount - 1, rowCount - 1);
}

} // namespace autoamp::front
