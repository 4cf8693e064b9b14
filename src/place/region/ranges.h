// NVTX ranges as regions, for the NVTX receiver (nvtx.cpp). Any thread.
#pragma once

#include "src/place/region/intern.h"

namespace autoamp::core {

const RangeName *findRangeName(std::string_view text); // null: it has no user
// Ranges of the calling thread in a domain (from 1). pushRange() returns the number of ranges that were open in it.
// popRange() returns the number that are left, or -1 if none was open.
int pushRange(uint64_t domain, const RangeName *name);
int popRange(uint64_t domain);
// Ranges of the process, for all threads. The returned id ends the range, on any thread.
uint64_t startRange(uint64_t domain, const RangeName *name);
void endRange(uint64_t id);
void endRanges(uint64_t domain); // ends the ranges of the calling thread and of the process in the domain

} // namespace autoamp::core
