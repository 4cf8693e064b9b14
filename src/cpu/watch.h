// Detects writes to memory of the program. The kernel protects the pages, and notes each write by any thread or system
// call, without stopping it: userfaultfd with asynchronous write protection, read by PAGEMAP_SCAN (Linux 6.7, no
// privileges). Not detected are writes that do not use this process's page table, so memory that allows them is
// refused. Any thread; no lock.
#pragma once

#include "src/cpu/reason.h"

#include <cstdint>

namespace autoamp::cpu {

// Whole pages.
struct Pages {
	uintptr_t begin, end;
};

// Begins to watch. The pages count as written until they are collected.
WeightReason watch(const Pages &pages);

enum class Written : uint8_t { no, yes, unknown };
// unknown: the memory is no longer watched, because it was unmapped or a descriptor was closed.
Written isWritten(const Pages &pages);

// Calls found(pages) for each written region. These are protected again before the call, so that the next collection
// finds what is written during it. Regions in which other ranges overlap `pages` are no longer written for them either.
// False: unknown.
bool collectRegions(const Pages &pages, void (*found)(const Pages &region, void *context), void *context);
template <typename Found>
bool collect(const Pages &pages, Found found)
{
	return collectRegions(
	    pages, [](const Pages &region, void *context) { (*static_cast<Found *>(context))(region); }, &found);
}

// A reason if something can write to the protected pages without notice. Call it after they were protected and read.
WeightReason findUnwatchedWriter(const Pages &pages);

// False if a part of them is not mapped, which a scan does not report.
bool isMapped(const Pages &pages);

void endWatch(const Pages &pages);

} // namespace autoamp::cpu
