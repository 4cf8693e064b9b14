// What the library keeps for one CUDA context: the device's facts and a private memory pool. Any thread; made at the
// first lowered call in a context, keyed by the context's id (a pointer may be another context tomorrow), never freed.
#pragma once

#include "src/cuda/driver.h"

#include <atomic>
#include <mutex>

namespace autoamp::cuda {

enum class Failure : uint8_t { none, outOfMemory, overBudget, driverError };
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

// Facts of device `ordinal`, asked once; null if the driver does not answer.
const DeviceFacts *deviceFacts(const Driver &driver, int ordinal);

// The device that this thread's calls go to. False: the driver does not say.
bool currentDevice(const Driver &driver, int &ordinal);

// The context that is current on this thread: which one, and on which device. False: none, or no driver.
struct Current {
	CUctx_st *handle;
	unsigned long long id;
	int device;
};
bool currentContext(const Driver &driver, Current &current);

struct GraphBlock;

// A piece of device memory for one lowered call.
struct Block {
	Address address = 0;
	Failure failure = Failure::none;
	GraphBlock *owned = nullptr; // by a graph
};

// Stream-ordered memory of one context within the budget of AUTOAMP_MEMORY and a quarter of what is free.
class Memory
{
public:
	Failure open(const Driver &driver, int device, size_t budget);
	void close(const Driver &driver); // nothing may be allocated

	// On `stream`, in stream order. Nothing waits, nothing synchronises. `isUnbounded`: past the budget, for calls that
	// have no other way.
	Block allocate(const Driver &driver, Stream stream, size_t bytes, bool isUnbounded = false);
	// False: the driver refused, the memory stays allocated.
	bool release(const Driver &driver, Stream stream, Address address);

	// For a call that is being captured: memory that lives as long as the graph, and no longer than it.
	Block allocateForGraph(const Driver &driver, Stream stream, size_t bytes, bool isUnbounded = false);
	// The call is enqueued: what the same capture orders behind it may have the memory again.
	void releaseForGraph(const Driver &driver, Stream stream, const Block &block);
	// Frees what destroyed graphs gave back; for the thread whose current context this memory belongs to.
	void collect(const Driver &driver);

private:
	enum class State : uint8_t;
	friend struct GraphBlock;
	static void giveBack(void *block);
	template <typename Fits>
	GraphBlock *take(Fits fits, State state);
	void mark(GraphBlock &block, State state);
	GraphBlock *share(const Driver &driver, Stream stream, const struct Frontier &at, size_t bytes);
	Failure reserve(const Driver &driver, size_t bytes, bool isForGraph);
	bool limitPool(const Driver &driver);

	CUmemPoolHandle_st *pool_ = nullptr;
	size_t budget_ = 0;
	std::atomic<size_t> inGraphs_{0};
	std::atomic<bool> hasReturned_{false};
	std::mutex mutex_;             // of the list and of each block's state; never held while the driver is called
	GraphBlock *blocks_ = nullptr; // all there ever were
};

} // namespace autoamp::cuda
