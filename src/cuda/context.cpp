#include "src/cuda/context.h"

#include "src/base/once.h"

#include <cuda.h>

namespace autoamp::cuda {

namespace {

constexpr int deviceLimit = 64;

const DeviceFacts *ask(const Driver &driver, int ordinal)
{
	auto *facts = new DeviceFacts;
	facts->ordinal = ordinal;
	int major = 0, minor = 0;
	if (driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal) ||
	    driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal) ||
	    driver.cuDeviceGetAttribute(&facts->smCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal) ||
	    driver.cuDeviceGetName(facts->name, sizeof facts->name, ordinal)) {
		delete facts;
		return nullptr;
	}
	facts->capability = major * 10 + minor;
	return facts;
}

} // namespace

const DeviceFacts *deviceFacts(const Driver &driver, int ordinal)
{
	static constinit std::atomic<const DeviceFacts *> known[deviceLimit];
	if (ordinal < 0 || ordinal >= deviceLimit)
		return nullptr;
	const DeviceFacts *facts = known[ordinal].load(std::memory_order_acquire);
	if (!facts && (facts = ask(driver, ordinal))) { // a failure is not remembered: the next call asks again
		const DeviceFacts *none = nullptr;
		if (!known[ordinal].compare_exchange_strong(none, facts, std::memory_order_acq_rel)) {
			delete facts;
			facts = none;
		}
	}
	return facts;
}

bool currentDevice(const Driver &driver, int &ordinal)
{
	ordinal = 0;
	if (const Result result = driver.cuCtxGetDevice(&ordinal); result != CUDA_ERROR_INVALID_CONTEXT)
		return result == 0;
	CUctx_st *current = nullptr;
	if (driver.cuCtxGetCurrent(&current) || current)
		return false; // there is one: the driver has another reason
	// A thread's first call of anything of CUDA: the vendor's runtime is about to make the first device's primary
	// context current. So do we, or this call would run in another precision than those after it.
	const RelaxedCapture relaxed(driver);
	if (!relaxed.isOk())
		return false;
	unsigned flags = 0;
	int isActive = 0;
	CUctx_st *primary = nullptr;
	if (driver.cuDevicePrimaryCtxGetState(0, &flags, &isActive) || !isActive ||
	    driver.cuDevicePrimaryCtxRetain(&primary, 0))
		return false;
	const bool isSet = driver.cuCtxSetCurrent(primary) == 0;
	if (driver.cuDevicePrimaryCtxRelease_v2(0))
		base::leaveFault("cuDevicePrimaryCtxRelease_v2");
	return isSet;
}

bool currentContext(const Driver &driver, Current &current)
{
	return driver.cuCtxGetCurrent(&current.handle) == 0 && current.handle &&
	       driver.cuCtxGetId(current.handle, &current.id) == 0 && driver.cuCtxGetDevice(&current.device) == 0;
}

// ---- memory

// What a graph owns. The graph's user object points here; its destructor may make no CUDA call, so it only pushes the
// block on a list that a later call frees.
struct Memory::GraphBlock {
	Memory *owner;
	Address address;
	size_t bytes;
	GraphBlock *next;
};

Failure Memory::open(const Driver &driver, int device, size_t budget)
{
	CUmemPoolProps properties = {};
	properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
	if (const Result result = driver.cuMemPoolCreate(&pool_, &properties))
		return result == outOfMemory ? Failure::outOfMemory : Failure::driverError;
	// What is freed stays in the pool up to the budget. Without INTERNAL_DEPENDENCIES = 0 the pool would make one of
	// the application's streams wait for another.
	cuuint64_t threshold = budget;
	int no = 0;
	if (driver.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) ||
	    driver.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no))
		return Failure::driverError;
	budget_ = budget;
	return Failure::none;
}

void Memory::close(const Driver &driver)
{
	if (pool_)
		driver.cuMemPoolDestroy(pool_);
	pool_ = nullptr;
}

Failure Memory::reserve(const Driver &driver, size_t bytes, size_t used, size_t reserved)
{
	if (used + bytes + inGraphs_.load(std::memory_order_relaxed) > budget_)
		return Failure::overBudget;
	if (used + bytes <= reserved)
		return Failure::none; // no growth: nothing to ask
	size_t free = 0, total = 0;
	if (driver.cuMemGetInfo_v2(&free, &total))
		return Failure::driverError;
	return used + bytes - reserved > free / 4 ? Failure::overBudget : Failure::none;
}

Block Memory::allocate(const Driver &driver, Stream stream, size_t bytes)
{
	cuuint64_t used = 0, reserved = 0;
	if (driver.cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) ||
	    driver.cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved))
		return {0, Failure::driverError};
	if (const Failure failure = reserve(driver, bytes, used, reserved); failure != Failure::none)
		return {0, failure};
	Block block;
	if (const Result result = driver.cuMemAllocFromPoolAsync(&block.address, bytes, pool_, stream)) {
		driver.cuMemPoolTrimTo(pool_, 0); // what we hold idle may be what is missing
		return {0, result == outOfMemory ? Failure::outOfMemory : Failure::driverError};
	}
	return block;
}

bool Memory::release(const Driver &driver, Stream stream, Address address)
{
	return driver.cuMemFreeAsync(address, stream) == 0;
}

Block Memory::allocateForGraph(const Driver &driver, Stream stream, size_t bytes)
{
	int status = 0;
	unsigned long long id = 0;
	CUgraph_st *graph = nullptr;
	if (driver.cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, nullptr, nullptr) || !graph)
		return {0, Failure::driverError};
	GraphBlock *owned = reuse(bytes);
	if (!owned) {
		cuuint64_t used = 0;
		if (driver.cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
			return {0, Failure::driverError};
		// A graph's memory comes from outside the pool: always growth. Blocks of destroyed graphs that fit nothing are
		// only freed when they stand in the way: that may wait for the device.
		Failure failure = reserve(driver, bytes, used, used);
		if (failure == Failure::overBudget && returned_.load(std::memory_order_relaxed)) {
			collect(driver);
			failure = reserve(driver, bytes, used, used);
		}
		if (failure != Failure::none)
			return {0, failure};
		Address address = 0;
		if (const Result result = driver.cuMemAlloc_v2(&address, bytes))
			return {0, result == outOfMemory ? Failure::outOfMemory : Failure::driverError};
		owned = new GraphBlock{this, address, bytes, nullptr};
		inGraphs_.fetch_add(bytes, std::memory_order_relaxed);
	}
	const Block block = {owned->address};
	CUuserObject_st *object = nullptr;
	if (driver.cuUserObjectCreate(&object, owned, giveBack, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)) {
		giveBack(owned);
		return {0, Failure::driverError};
	}
	if (driver.cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE)) {
		driver.cuUserObjectRelease(object, 1); // its destructor gives the block back
		return {0, Failure::driverError};
	}
	return block;
}

// What a graph gave back, as large as this or little larger. So graphs that come and go need no more than those that
// live, also where no eager call frees anything in between, and a capture frees nothing itself: it may not wait.
Memory::GraphBlock *Memory::reuse(size_t bytes)
{
	GraphBlock *found = nullptr;
	for (GraphBlock *block = returned_.exchange(nullptr, std::memory_order_acquire); block;) {
		GraphBlock *const next = block->next;
		if (!found && block->bytes >= bytes && block->bytes / 2 <= bytes)
			found = block;
		else
			giveBack(block);
		block = next;
	}
	return found;
}

void Memory::giveBack(void *block)
{
	auto *returned = static_cast<GraphBlock *>(block);
	std::atomic<GraphBlock *> &list = returned->owner->returned_;
	returned->next = list.load(std::memory_order_relaxed);
	while (!list.compare_exchange_weak(returned->next, returned, std::memory_order_release))
		;
}

void Memory::collect(const Driver &driver)
{
	if (!returned_.load(std::memory_order_relaxed))
		return;
	for (GraphBlock *block = returned_.exchange(nullptr, std::memory_order_acquire); block;) {
		GraphBlock *const next = block->next;
		if (driver.cuMemFree_v2(block->address) == 0) {
			inGraphs_.fetch_sub(block->bytes, std::memory_order_relaxed);
			delete block;
		} else {
			base::leaveFault("cuMemFree_v2");
			giveBack(block); // later
		}
		block = next;
	}
}

} // namespace autoamp::cuda
