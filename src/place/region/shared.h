// Regions and NVTX ranges that apply to all threads of the process. Any thread. Functions marked "under the lock" need
// RegionLock.
#pragma once

#include "src/place/region/intern.h"

#include <atomic>
#include <map>
#include <unordered_map>
#include <vector>

namespace autoamp::core {

// Changes when another thread may have changed the region of a thread: regions and ranges for all threads.
[[gnu::visibility("hidden")]] extern std::atomic<unsigned> regionEpoch;

struct Shared {
	struct Part {
		uint64_t ticket;
		PerDeviceType<Region> region;
	};
	std::vector<Part> regions; // for all threads, in the order in which they were opened
	// NVTX ranges of the process, by ticket. A program may open thousands: `range` caches their combination.
	struct Range {
		uint64_t domain;
		const RangeName *name;
	};
	std::map<uint64_t, Range> ranges;
	std::unordered_map<const RangeName *, size_t> open;
	Region range;
	uint64_t ticketCount = 1; // the last ticket; 1 stands for ranges that are not stored
};
Shared &shared();                  // under the lock
extern std::atomic<bool> isShared; // a region or range for all threads is open

// Calls outside of regions are not lowered: AUTOAMP_SCOPE=auto.
extern PerDeviceType<std::atomic<bool>> isRegionRequired;

void requireRegion(DeviceType type); // sets isRegionRequired
void shareOthers();                  // under the lock, after a change: updates isShared and regionEpoch
void renewRange();                   // under the lock, after a change of the ranges: merges them into Shared::range

// Returns the ticket of the region, or 0 if there are too many. The thread must have a stack (thisStack()).
uint64_t share(const PerDeviceType<Region> &part);
void unshare(uint64_t ticket);

} // namespace autoamp::core
