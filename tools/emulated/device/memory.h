// The tables of the emulated device's memory, for memory.cpp and mapping.cpp. Under Memory::mutex.
//
// Device addresses are in a range without access, so that a host access faults. The device's own view is the same range
// at a constant distance. There only live allocations are accessible, and each ends at a guard page while the limit of
// guard pages is not reached. Pinned, managed and registered memory is ordinary host memory and its own view.
#pragma once

#include "core.h"

#include <set>
#include <shared_mutex>

namespace emulated {

constexpr size_t page = 4096;

inline size_t roundUp(size_t bytes, size_t grain)
{
	return (bytes + grain - 1) / grain * grain;
}

struct Memory {
	std::shared_mutex mutex;
	uintptr_t base = 0, offset = 0, next = 0; // device range; distance to the view; first unused page
	size_t rangeBytes = size_t{1} << 38;      // smaller if the process cannot map so many addresses
	std::map<uintptr_t, Allocation> live;
	std::deque<std::pair<uintptr_t, size_t>> resting; // freed recently
	std::map<uintptr_t, size_t> spare;                // freed earlier; adjacent ranges are merged
	std::set<std::pair<size_t, uintptr_t>> spareBySize;
	std::vector<size_t> used; // bytes by device
	std::unordered_set<const Pool *> pools;
	uint64_t ids = 0;
	size_t guarded = 0;
	char *nowhere = nullptr; // memory that kernels receive for invalid pointers

	Memory();
};
Memory &memory();

uintptr_t takeRange(size_t bytes); // returns an address; 0: none left
void restRange(uintptr_t from, size_t bytes);
void closePages(void *view, size_t bytes);
Allocation *containing(uintptr_t address);

} // namespace emulated
