// The operands of a context that are observed or kept, and the memory of their copies (docs/adr/0061). Any thread;
// never waits for the device.
#pragma once

#include "kernels/cast.h"
#include "src/cuda/context.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace autoamp::lower {

// An operand is observed in windows of calls. The next window begins when the device has ended the last one, and some
// calls later: each gap is twice as long as the last one.
constexpr uint32_t provenRepeats = 3, windowCalls = provenRepeats + 1, firstGap = 4, longestGap = 4096;

// One operand of a context.
struct Weight {
	const void *source = nullptr; // null: free
	uint64_t layout = 0, usedAt = 0;
	bool isClaimed = false;

	// Used only by the call that has claimed it:
	uint64_t generation = 0; // of the observation
	uint32_t calls = 0, gap = firstGap, retryAt = 0;
	uint32_t observed = 0;               // observations of this generation
	uint32_t observedAt = 0;             // call of the latest one
	uint32_t windowLeft = windowCalls;   // observations that the window still needs
	uint32_t windowAt = 0;               // call at which the next window begins; 0: unknown
	uint32_t compared = 0, repeated = 0; // told so far

	// The copy. Address 0: none.
	cuda::Address copy = 0;
	size_t bytes = 0;
	uint64_t copyGeneration = 0, bufferId = 0, region = 0;
	uint64_t stream = 0;            // keyOf() of the latest call
	CUevent_st *used = nullptr;     // behind its product
	bool isUnordered = false;       // the event could not be recorded: no other stream may use or free the copy
	bool isRetired = false;         // to be freed by collect()
	uint32_t hits = 0, changes = 0; // calls with the copy; changes seen so far
	uint32_t changedAt = 0;         // hits at the latest change
	bool isReported = true;         // the latest call with the copy had events
	uint32_t failures = 0;          // copies given up so far
};

// The operands of one context. Made at the first call that asks.
class Weights
{
public:
	// The operand with this address and layout, claimed for one call; null: the table is full, or another call has it.
	Weight *claim(const void *source, uint64_t layout, bool &isFull);
	void release(Weight &weight);

	// Counts a copy of this size. False: copies would exceed their part of the budget.
	bool reserve(size_t bytes, size_t budget);
	void giveBack(size_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }
	size_t held() const { return held_.load(std::memory_order_relaxed); }
	// For a call that found no memory for this many bytes: releases as many copies as would let it run, for good. True:
	// it may exceed the budget, by the memory that the device still releases or that copies of graphs hold. False:
	// there are not so many copies.
	bool makeRoom(const cuda::Driver &driver, cuda::Memory &memory, size_t bytes);

	// Releases the copies that were made in this region, or whose application memory was freed.
	void releaseRegion(uint64_t region);
	void releaseFreed(const cuda::Driver &driver);
	// Frees the memory of released copies behind their last products. The context must be current on the thread.
	void collect(const cuda::Driver &driver, cuda::Memory &memory);

	uint32_t indexOf(const Weight &weight) const { return static_cast<uint32_t>(&weight - table_); }
	void setCopy(Weight &weight, cuda::Address copy);

private:
	template <typename IsMeant>
	void retire(IsMeant isMeant);
	Weight *table();

	std::mutex mutex_; // protects the table, except for claimed operands; never held during driver calls
	Weight *table_ = nullptr;
	uint64_t clock_ = 0;
	std::atomic<size_t> held_{0};         // bytes of all eager copies
	std::atomic<size_t> most_{SIZE_MAX};  // bytes that copies may hold since a call lacked memory
	std::atomic<size_t> releasing_{0};    // bytes whose release the device may not have ended
	std::atomic<bool> hasRetired_{false}; // a copy waits for its release
	CUstream_st *private_ = nullptr;      // for collect(), which one thread runs at a time
	std::atomic<bool> isCollecting_{false};
};

uint64_t nextGeneration();
// Identifies the allocation at this address; 0: unknown.
uint64_t bufferIdOf(const cuda::Driver &driver, const void *source);

} // namespace autoamp::lower
