// The tables of the emulated device's memory, for the files that keep them: memory.cpp, mapping.cpp. Under
// Memory::mutex.
//
// Device addresses lie in a range that is never accessible, so that a host access faults; the device's own view is the
// same range a constant distance away, where only live allocations are accessible and each ends at a guard page.
// Pinned, managed and registered memory is ordinary host memory: its own view.
#pragma once

#include "core.h"

#include <set>
#include <shared_mutex>

namespace emulated {

constexpr size_t page = 4096, rangeBytes = size_t{1} << 38;

inline size_t roundUp(size_t bytes, size_t grain)
{
	return (bytes + grain - 1) / grain * grain;
}

struct Memory {
	std::shared_mutex mutex;
	uintptr_t base, offset, next; // device range; distance to the view; first page never used
	std::map<uintptr_t, Allocation> live;
	std::deque<std::pair<uintptr_t, size_t>> resting; // freed lately
	std::map<uintptr_t, size_t> spare;                // freed long enough ago, neighbours joined
	std::set<std::pair<size_t, uintptr_t>> spareBySize;
	std::vector<size_t> used; // by device
	std::unordered_set<const Pool *> pools;
	uint64_t ids = 0;
	size_t guarded = 0;
	char *nowhere; // what a kernel gets for a pointer that it may not touch

	Memory();
};
Memory &memory();

uintptr_t takeRange(size_t bytes); // addresses; 0: none left
void restRange(uintptr_t from, size_t bytes);
void closePages(void *view, size_t bytes);
Allocation *containing(uintptr_t address);

} // namespace emulated
