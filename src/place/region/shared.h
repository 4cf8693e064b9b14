// Regions and NVTX ranges that cover all threads of the process. Any thread; functions with such a comment need the
// lock.
#pragma once

#include "src/place/region/intern.h"

#include <atomic>
#include <map>
#include <unordered_map>
#include <vector>

namespace autoamp::core {

// Changes whenever the region of a thread may have changed without its own doing.
extern std::atomic<unsigned> regionEpoch;

struct Shared {
	struct Part {
		uint64_t ticket;
		Region region;
	};
	std::vector<Part> regions; // for all threads
	// NVTX ranges of the process, by ticket. A program may open thousands: `range` caches their combination.
	struct Range {
		uint64_t domain;
		const RangeName *name;
	};
	std::map<uint64_t, Range> ranges;
	std::unordered_map<const RangeName *, size_t> open;
	Region range;
	uint64_t ticketCount = 1; // 1 is returned for ranges without a user
};
Shared &shared();                  // under the lock
extern std::atomic<bool> isShared; // there is any

void shareOthers(); // under the lock, after a change
void renewRange();  // under the lock, after a change of the ranges

// Returns the ticket of the region, or 0 if there are too many. The thread must have a stack (thisStack()).
uint64_t share(const Region &part);
void unshare(uint64_t ticket);

} // namespace autoamp::core
