#include "src/cuda/context.h"

#include "src/base/hash.h"
#include "src/base/log.h"
#include "src/base/once.h"

#define __CUDA_API_VERSION_INTERNAL // exported names: no macro maps a name to another version
#include <algorithm>
#include <cuda.h>
#include <utility>

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
	if (!facts && (facts = ask(driver, ordinal))) { // a failure is not stored: the next call queries again
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
		return false; // a context exists: the failure has another reason
	// First CUDA call of this thread: the vendor's runtime is about to make the primary context of the first device
	// current. autoamp does the same, because this call would otherwise run in another precision than later ones.
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

enum class Memory::State : uint8_t {
	none,     // no memory: the object is free for a new block
	inUse,    // used by a call, or by a graph whose capture does not share it
	idle,     // owned by a graph; the same capture may use it again
	returned, // its graph was destroyed
};

// Target of a graph's user object. The destructor of that object must not make CUDA calls, so it only marks the block
// as returned: a later call reuses or frees it.
struct GraphBlock {
	Memory *const owner;
	Memory::State state = Memory::State::inUse;
	Address address = 0;
	size_t bytes = 0;
	size_t asked = 0;                   // part of `bytes` that its first user in the capture requested
	unsigned long long capture = 0;     // capture of the graph; ids are unique in the process
	uint64_t content = 0;               // as in allocateForGraph()
	CUgraphNode_st *lastUser = nullptr; // when idle: a node after this one runs after all users of the block
	GraphBlock *next = nullptr;
};

// State of a stream capture: the next captured node depends on these nodes.
struct Frontier {
	unsigned long long capture = 0;
	CUgraph_st *graph = nullptr;
	CUgraphNode_st *const *nodes = nullptr; // valid until the stream is used again
	size_t count = 0;
};

// False: the stream is not being captured. If the driver does not report the frontier, it is empty.
static bool ask(const Driver &driver, Stream stream, Frontier &at)
{
	int status = 0;
	const Result result =
	    driver.cuStreamGetCaptureInfo_v2(stream, &status, &at.capture, &at.graph, &at.nodes, &at.count);
	if (result == 0)
		return at.graph;
	if (result != lossyQuery) // an edge is not a full dependency, which the older query cannot report
		base::leaveFault("cuStreamGetCaptureInfo_v2");
	at.count = 0;
	return driver.cuStreamGetCaptureInfo_v2(stream, &status, &at.capture, &at.graph, nullptr, nullptr) == 0 && at.graph;
}

Failure Memory::open(const Driver &driver, int device, size_t budget)
{
	budget_ = budget;
	int hasPools = 1;
	if (driver.cuDeviceGetAttribute(&hasPools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device) == 0 && !hasPools)
		return Failure::none; // see allocate()
	CUmemPoolProps properties = {};
	properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
	if (const Result result = driver.cuMemPoolCreate(&pool_, &properties))
		return failureOf(result);
	// Otherwise the pool could make one application stream wait for another.
	int no = 0;
	if (!limitPool(driver) ||
	    driver.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no))
		return Failure::driverError;
	return Failure::none;
}

// Freed memory stays in the pool, up to the budget minus the memory of graphs. The driver releases the rest when the
// application next synchronizes.
bool Memory::limitPool(const Driver &driver)
{
	if (!pool_)
		return true;
	held_.store(0, std::memory_order_relaxed);
	cuuint64_t threshold = budget_ - std::min(budget_, inGraphs_.load(std::memory_order_relaxed));
	return driver.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == 0;
}

Result Memory::trim(const Driver &driver, size_t bytes)
{
	held_.store(0, std::memory_order_relaxed);
	return driver.cuMemPoolTrimTo(pool_, bytes);
}

void Memory::close(const Driver &driver)
{
	if (pool_)
		driver.cuMemPoolDestroy(pool_);
	pool_ = nullptr;
}

Failure Memory::reserve(const Driver &driver, size_t bytes, bool isForGraph)
{
	cuuint64_t used = 0, reserved = 0;
	if (pool_ && driver.cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
		return Failure::driverError;
	const size_t inGraphs = inGraphs_.load(std::memory_order_relaxed);
	if (used + bytes + inGraphs > budget_)
		return Failure::overBudget;
	if (!isForGraph && used + bytes <= held_.load(std::memory_order_relaxed))
		return Failure::none; // as below, without a query
	if (pool_ && driver.cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved))
		return Failure::driverError;
	// If another thread trims the pool now, this is too much: the pool may then grow without a look at the free memory.
	held_.store(std::min<size_t>(reserved, budget_ - inGraphs), std::memory_order_relaxed);
	if (isForGraph) {
		// Graphs do not allocate from the pool, so its idle memory is released for them. The trim waits for nothing;
		// limitPool() handles the memory that it therefore leaves.
		if (const size_t rest = budget_ - inGraphs - bytes; reserved > rest && trim(driver, rest))
			base::leaveFault("cuMemPoolTrimTo");
	} else if (used + bytes <= reserved) {
		return Failure::none; // the pool need not grow
	}
	size_t free = 0, total = 0;
	if (driver.cuMemGetInfo_v2(&free, &total))
		return Failure::driverError;
	if ((isForGraph ? bytes : used + bytes - reserved) > free / 4)
		return Failure::overBudget;
	base::log(base::LogLevel::debug, "memory for operands: %llu bytes in use, %zu more%s",
	          static_cast<unsigned long long>(used), bytes, isForGraph ? " for a graph" : "");
	return Failure::none;
}

Block Memory::allocate(const Driver &driver, Stream stream, size_t bytes, bool isUnbounded)
{
	if (!pool_) { // cuMemFree waits for the device, so only calls without an alternative get memory
		Block block = {0, Failure::noPools};
		if (isUnbounded)
			block.failure = failureOf(driver.cuMemAlloc_v2(&block.address, bytes));
		return block;
	}
	const Failure failure = isUnbounded ? Failure::none : reserve(driver, bytes, false);
	if (failure != Failure::none)
		return {0, failure};
	Block block;
	if (const Result result = driver.cuMemAllocFromPoolAsync(&block.address, bytes, pool_, stream)) {
		trim(driver, 0); // idle pool memory may be what is missing
		return {0, failureOf(result)};
	}
	return block;
}

size_t Memory::missing(const Driver &driver, size_t bytes) const
{
	cuuint64_t used = 0, reserved = 0;
	size_t free = 0, total = 0;
	if (!pool_ || driver.cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used) ||
	    driver.cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) ||
	    driver.cuMemGetInfo_v2(&free, &total))
		return bytes;
	const auto beyond = [](size_t wanted, size_t available) { return wanted - std::min(wanted, available); };
	const size_t wanted = used + bytes;
	const size_t ofBudget = beyond(wanted + inGraphs(), budget_),
	             ofDevice = beyond(beyond(wanted, reserved), free / 4); // as in reserve()
	return std::max(ofBudget, ofDevice);
}

bool Memory::release(const Driver &driver, Stream stream, Address address)
{
	return (pool_ ? driver.cuMemFreeAsync(address, stream) : driver.cuMemFree_v2(address)) == 0;
}

// ---- memory of graphs (docs/adr/0008)

// Returns the first block that fits, and sets its state so that no other thread takes it.
template <typename Fits>
GraphBlock *Memory::take(Fits fits, State state)
{
	const std::lock_guard lock(mutex_);
	for (GraphBlock *block = blocks_; block; block = block->next)
		if (fits(*block)) {
			block->state = state;
			return block;
		}
	return nullptr;
}

void Memory::mark(GraphBlock &block, State state)
{
	const std::lock_guard lock(mutex_);
	block.state = state;
}

void Memory::giveBack(void *pointer)
{
	auto *block = static_cast<GraphBlock *>(pointer);
	Memory &memory = *block->owner;
	{
		const std::lock_guard lock(memory.mutex_);
		if (std::exchange(block->content, 0))
			memory.copiesInGraphs_.fetch_sub(block->bytes, std::memory_order_relaxed);
		block->state = State::returned;
	}
	memory.hasReturned_.store(true, std::memory_order_release);
}

// Returns a block that the same capture has used before, nearest first. Its last user must already precede the next
// node, so that concurrent branches of the application stay concurrent.
// Only the size that the first user requested counts, not the allocated size. Otherwise the edges of the graph would
// depend on available memory, and cudaGraphExecUpdate would find them changed.
GraphBlock *Memory::share(const Driver &driver, Stream stream, const Frontier &at, size_t bytes, uint64_t content)
{
	const auto isIdle = [&](const GraphBlock &block) {
		return block.state == State::idle && block.capture == at.capture && block.asked >= bytes &&
		       block.content == content;
	};
	constexpr size_t mostNodes = 256, mostEdges = 32; // beyond these limits, a new block is cheaper than the search
	if (at.count > mostNodes || !take(isIdle, State::idle)) // no idle block at all
		return nullptr;
	CUgraphNode_st *seen[mostNodes], *before[mostEdges];
	CUgraphNode_st **end = std::copy_n(at.nodes, at.count, seen);
	for (CUgraphNode_st **node = seen; node != end; node++) {
		const auto isBehind = [&](const GraphBlock &block) { return isIdle(block) && block.lastUser == *node; };
		if (GraphBlock *block = take(isBehind, State::inUse)) {
			// Adds an edge: the application may remove its edges to this node, because they only order its own data.
			// Not for a content: which calls have the same one can differ between two captures of a program, and
			// cudaGraphExecUpdate would find other edges.
			if (node < seen + at.count || content ||
			    !driver.cuStreamUpdateCaptureDependencies(stream, node, 1, CU_STREAM_ADD_CAPTURE_DEPENDENCIES))
				return block;
			base::leaveFault("cuStreamUpdateCaptureDependencies");
			return nullptr;
		}
		size_t count = mostEdges;
		if (const Result result = driver.cuGraphNodeGetDependencies(*node, before, &count)) {
			if (result == lossyQuery)
				continue;
			base::leaveFault("cuGraphNodeGetDependencies");
			return nullptr;
		}
		for (size_t i = 0; i < std::min(count, mostEdges) && end != std::end(seen); i++)
			if (std::find(seen, end, before[i]) == end)
				*end++ = before[i];
	}
	return nullptr;
}

Block Memory::allocateForGraph(const Driver &driver, Stream stream, size_t bytes, bool isUnbounded, uint64_t content)
{
	Frontier at;
	if (!ask(driver, stream, at))
		return {0, Failure::driverError};
	const auto answer = [&](GraphBlock *block, bool isShared) {
		const uint64_t unique = base::mix(base::mix(content, at.capture), block->address);
		return Block{block->address, Failure::none, block, isShared, unique};
	};
	if (GraphBlock *shared = share(driver, stream, at, bytes, content))
		return answer(shared, true);
	// Reuses the block of a destroyed graph if it is at most about twice as large. Graphs that come and go then need no
	// more memory than the living ones, even if no eager call frees blocks in between.
	GraphBlock *owned = take(
	    [&](const GraphBlock &block) {
		    return block.state == State::returned && block.bytes >= bytes && block.bytes / 2 <= bytes;
	    },
	    State::inUse);
	if (!owned) {
		// Other blocks of destroyed graphs are freed here only if they prevent the allocation, because freeing may wait
		// for the device.
		Failure failure = reserve(driver, bytes, true);
		if (failure == Failure::overBudget && hasReturned_.load(std::memory_order_relaxed)) {
			collect(driver);
			failure = reserve(driver, bytes, true);
		}
		if (failure != Failure::none && !(isUnbounded && failure == Failure::overBudget))
			return {0, failure};
		Address address = 0;
		if (const Result result = driver.cuMemAlloc_v2(&address, bytes))
			return {0, failureOf(result)};
		owned = take([](const GraphBlock &block) { return block.state == State::none; }, State::inUse);
		if (!owned) {
			owned = new GraphBlock{this};
			const std::lock_guard lock(mutex_);
			owned->next = std::exchange(blocks_, owned);
		}
		owned->address = address;
		owned->bytes = bytes;
		inGraphs_.fetch_add(bytes, std::memory_order_relaxed);
		if (!limitPool(driver))
			base::leaveFault("cuMemPoolSetAttribute");
	}
	owned->asked = bytes;
	owned->capture = at.capture;
	owned->content = content;
	if (content)
		copiesInGraphs_.fetch_add(owned->bytes, std::memory_order_relaxed);
	CUuserObject_st *object = nullptr;
	if (driver.cuUserObjectCreate(&object, owned, giveBack, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)) {
		giveBack(owned);
		return {0, Failure::driverError};
	}
	if (driver.cuGraphRetainUserObject(at.graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE)) {
		driver.cuUserObjectRelease(object, 1); // its destructor returns the block
		return {0, Failure::driverError};
	}
	return answer(owned, false);
}

void Memory::releaseForGraph(const Driver &driver, Stream stream, const Block &block)
{
	Frontier at;
	if (!ask(driver, stream, at) || at.count != 1)
		return;
	GraphBlock &owned = *block.owned;
	const std::lock_guard lock(mutex_);
	if (owned.state == State::inUse && owned.capture == at.capture) { // otherwise its graph was destroyed
		owned.state = State::idle;
		owned.lastUser = at.nodes[0];
	}
}

void Memory::collect(const Driver &driver)
{
	if (!hasReturned_.load(std::memory_order_relaxed) || !hasReturned_.exchange(false, std::memory_order_acquire))
		return;
	while (GraphBlock *block =
	           take([](const GraphBlock &block) { return block.state == State::returned; }, State::inUse)) {
		if (driver.cuMemFree_v2(block->address)) {
			base::leaveFault("cuMemFree_v2");
			giveBack(block); // a later call tries again
			break;
		}
		inGraphs_.fetch_sub(block->bytes, std::memory_order_relaxed);
		mark(*block, State::none);
	}
	if (!limitPool(driver))
		base::leaveFault("cuMemPoolSetAttribute");
}

} // namespace autoamp::cuda
