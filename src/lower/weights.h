// Converted operands that are kept from call to call, and the observation that finds operands which do not change
// (docs/adr/0061). Any thread; never waits for the device. A copy belongs to one stream at a time, or to a graph.
#pragma once

#include "kernels/cast.h"
#include "src/cuda/context.h"
#include "src/lower/lowering.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace autoamp::lower {

struct LoweredCall;
struct Weight; // one operand of a context

// The operands of one context. Made at the first call that asks.
class Weights
{
public:
	// The operand with this address and layout, claimed for one call; null: another call has it, or the table is full.
	Weight *claim(const void *source, uint64_t layout);
	void release(Weight &weight);

	// Counts a copy of this size. False: copies would exceed their part of the budget.
	bool reserve(size_t bytes, size_t budget);
	void giveBack(size_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }
	// For a call that lacks this memory and would run without copies: releases as many as that takes, for good. False:
	// there are none.
	bool makeRoom(const cuda::Driver &driver, cuda::Memory &memory, size_t bytes);

	// Releases the copies that were made in this region, or whose application memory was freed.
	void releaseRegion(uint64_t region);
	void releaseFreed(const cuda::Driver &driver);
	// Frees the memory of released copies behind their last products. The context must be current on the thread.
	void collect(const cuda::Driver &driver, cuda::Memory &memory);

private:
	friend class KeptOperands;
	template <typename IsMeant>
	void retire(IsMeant isMeant);
	Weight *table();

	std::mutex mutex_; // protects the table, except for claimed operands; never held during driver calls
	Weight *table_ = nullptr;
	uint64_t clock_ = 0;
	std::atomic<size_t> held_{0};         // bytes of all eager copies
	std::atomic<size_t> most_{SIZE_MAX};  // bytes that copies may hold since a call lacked memory
	std::atomic<bool> hasRetired_{false}; // a copy waits for its release
	CUstream_st *private_ = nullptr;      // for collect(), which one thread runs at a time
	std::atomic<bool> isCollecting_{false};
};

// The two operands of one call: which are converted, observed, or read from a kept copy. The destructor ends their use.
class KeptOperands
{
public:
	KeptOperands() = default;
	~KeptOperands();
	KeptOperands(const KeptOperands &) = delete;

	// Decides about an operand of a call for which mayKeep() is true. layout: hash of everything that the copy depends
	// on except the contents. bytes: size of the converted operand. Enqueues nothing except the clearing of a new copy.
	void choose(LoweredCall &call, int operand, const void *source, uint64_t layout, int64_t elements, size_t bytes);

	bool isUsed() const { return uses_[0].weight || uses_[1].weight; }      // the kernels for kept operands run
	cuda::Address copyOf(int operand) const { return uses_[operand].copy; } // 0: the operand has none
	// True if a settle kernel must follow the cast to bfloat16.
	bool needsSettle(const LoweredCall &call) const;
	// Sets the parameters of the kernels. records: memory for kernels::recordCount() records.
	void prepare(kernels::Scaling &parameters, const LoweredCall &call, cuda::Address records) const;

private:
	struct Use {
		Weight *weight = nullptr;
		kernels::Kept kept = {};
		cuda::Address copy = 0;
		cuda::Block block = {}; // of a graph
	};
	void observe(LoweredCall &call, Use &use, WeightUse &told, bool isEnded);
	void useCopy(LoweredCall &call, Use &use, WeightUse &told, size_t copyBytes);
	void useInGraph(LoweredCall &call, Use &use, WeightUse &told, uint64_t content, size_t copyBytes);
	bool make(LoweredCall &call, Weight &weight, WeightUse &told, size_t copyBytes);
	void giveUp(LoweredCall &call, Weight &weight, WeightUse &told);

	Use uses_[kernels::operands];
	LoweredCall *call_ = nullptr;
};

// True if operands of this call may be kept or observed.
bool mayKeep(const LoweredCall &call);

// Releases the copies made in this region, in all contexts. Called when it ends.
void releaseWeights(uint64_t region);

} // namespace autoamp::lower
