// Facts of a CUDA device, and a private memory pool for a context. Any thread. A pool is made at the first lowered call
// in a context, keyed by the id of the context (its pointer may be reused for another one), and never freed.
#pragma once

#include "src/cuda/driver.h"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace autoamp::cuda {

enum class Failure : uint8_t { none, outOfMemory, overBudget, noPools, driverError };
constexpr Failure failureOf(Result result)
{
	return result == 0 ? Failure::none : result == outOfMemory ? Failure::outOfMemory : Failure::driverError;
}

struct DeviceFacts {
	int ordinal = -1;
	int capability = 0; // 90 for sm_90
	int smCount = 0;
	char name[96] = {};
};

// Returns the facts of device `ordinal`, queried once; null if the driver returns an error.
const DeviceFacts *deviceFacts(const Driver &driver, int ordinal);

// Finds the device that the calls of this thread use. False: the driver does not report it.
bool currentDevice(const Driver &driver, int &ordinal);

// The context that is current on this thread, and its device. False: there is none, or the driver failed.
struct Current {
	CUctx_st *handle;
	unsigned long long id;
	int device;
};
bool currentContext(const Driver &driver, Current &current);

struct GraphBlock;

// A block of device memory for one lowered call.
struct Block {
	Address address = 0;
	Failure failure = Failure::none;
	GraphBlock *owned = nullptr; // set if a graph owns the block
	bool isShared = false;       // an earlier node of the same capture has put the content there
	uint64_t content = 0;        // number of this content; no other block or capture has it
};

// Stream-ordered memory of one context, limited by AUTOAMP_MEMORY and a quarter of the free memory.
class Memory
{
public:
	Failure open(const Driver &driver, int device, size_t budget);
	void close(const Driver &driver);                                             // nothing may be allocated any more
	size_t inGraphs() const { return inGraphs_.load(std::memory_order_relaxed); } // bytes
	size_t copiesInGraphs() const { return copiesInGraphs_.load(std::memory_order_relaxed); } // bytes with a content
	bool hasPool() const { return pool_; } // false: only unbounded requests and graphs get memory

	// Allocates on `stream`, in stream order, without waiting or synchronising. `isUnbounded`: exceed the budget, for
	// calls that cannot run in another way.
	Block allocate(const Driver &driver, Stream stream, size_t bytes, bool isUnbounded = false);
	// How many bytes of those in use would have to be free for allocate() to get this many. 0: the budget allows them.
	size_t missing(const Driver &driver, size_t bytes) const;
	// False: the driver refused; the memory stays allocated.
	bool release(const Driver &driver, Stream stream, Address address);

	// For a call that is being captured: the memory lives exactly as long as the graph. `content`: hash of what the
	// memory is to hold; calls of the capture with the same content share it. 0: nothing that outlives the call.
	Block allocateForGraph(const Driver &driver, Stream stream, size_t bytes, bool isUnbounded = false,
	                       uint64_t content = 0);
	// To be called when the call is enqueued. Later nodes of the same capture may then use the memory again.
	void releaseForGraph(const Driver &driver, Stream stream, const Block &block);
	// Frees the memory of destroyed graphs. The context that owns this pool must be current on the thread.
	void collect(const Driver &driver);

private:
	enum class State : uint8_t;
	friend struct GraphBlock;
	static void giveBack(void *block);
	template <typename Fits>
	GraphBlock *take(Fits fits, State state);
	void mark(GraphBlock &block, State state);
	GraphBlock *share(const Driver &driver, Stream stream, const struct Frontier &at, size_t bytes, uint64_t content);
	Failure reserve(const Driver &driver, size_t bytes, bool isForGraph);
	bool limitPool(const Driver &driver);
	Result trim(const Driver &driver, size_t bytes);

	CUmemPoolHandle_st *pool_ = nullptr;
	size_t budget_ = 0;
	std::atomic<size_t> inGraphs_{0}, copiesInGraphs_{0};
	std::atomic<size_t> held_{0}; // memory that the pool has, at least, and keeps until it is trimmed or limited
	std::atomic<bool> hasReturned_{false};
	std::mutex mutex_;             // protects the list and the state of each block; never held during driver calls
	GraphBlock *blocks_ = nullptr; // all blocks ever made
};

} // namespace autoamp::cuda
