#include "memory.h"
#include "kernel.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace emulated {
namespace {

constexpr size_t alignment = 512;
constexpr size_t guardedMost = 8192; // live guard pages; the kernel limits the mappings of a process
constexpr size_t quarantine = 16;    // number of freed ranges that are not reused yet
constexpr size_t largeBytes = size_t{16} << 20, poisonBytes = size_t{4} << 20;
constexpr size_t poolGrain = size_t{2} << 20;

// A file of 0xff bytes. Large allocations map it privately, so that only written pages use memory.
int poisonFile()
{
	static const int file = [] {
		const int fd = memfd_create("autoamp-emulated-poison", MFD_CLOEXEC);
		const std::vector<char> bytes(poisonBytes, char(0xff));
		return fd >= 0 && write(fd, bytes.data(), bytes.size()) == ssize_t(bytes.size()) ? fd : -1;
	}();
	return file;
}

// Opens the pages and fills them with 0xff, a NaN in every type.
bool openPages(void *from, size_t bytes)
{
	auto *to = static_cast<char *>(from);
	const int protection = PROT_READ | PROT_WRITE;
	if (const int fd = bytes >= largeBytes ? poisonFile() : -1; fd >= 0) {
		for (size_t done = 0; done < bytes; done += poisonBytes)
			if (mmap(to + done, std::min(poisonBytes, bytes - done), protection,
			         MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd, 0) == MAP_FAILED)
				return false;
		return true;
	}
	if (mprotect(to, bytes, protection))
		return false;
	memset(to, 0xff, bytes);
	return true;
}

// The pages of an allocation in the device's view, without the guard page.
void *pagesOf(const Allocation &one)
{
	return reinterpret_cast<void *>(one.range + (onDevice(one.kind) ? memory().offset : 0));
}
size_t openBytes(const Allocation &one)
{
	return roundUp(one.bytes, alignment) + (one.base - one.range);
}

bool inDeviceRange(uintptr_t address)
{
	return address - memory().base < memory().rangeBytes;
}

// True if work of a context may access an allocation of any device. Without a context: true if a copy may.
bool mayTouch(const Allocation &one, const Context *context)
{
	if (one.kind == Allocation::Mapped)
		return context ? one.access >> context->device & 1 : one.access;
	if (!context || !onDevice(one.kind) || one.context->device == context->device)
		return true;
	return one.pool ? one.pool->access >> context->device & 1 : context->peers >> one.context->device & 1;
}

// The view of a live range, for work with the number `sequence`. Adjacent mappings form one range. With the lock held.
void *viewOf(uintptr_t address, size_t bytes, uint64_t sequence, const Context *context)
{
	const Allocation *one = containing(address);
	const bool isDevice = one && onDevice(one->kind), isMapped = one && one->kind == Allocation::Mapped;
	for (uintptr_t at = address, end = address + bytes;;) {
		if (!one || !one->ready || sequence >= one->freedAt || !mayTouch(*one, context))
			return nullptr;
		at = one->base + one->bytes;
		if (end <= at)
			return reinterpret_cast<void *>(address + (isDevice ? memory().offset : 0));
		one = isMapped ? containing(at) : nullptr;
	}
}

void *currentView(const void *address, size_t bytes, bool peers)
{
	const Op *running = thread().running;
	const Context *context = running && peers ? running->stream->context : nullptr;
	std::shared_lock lock(memory().mutex);
	return viewOf(uintptr_t(address), bytes, running ? running->sequence : ~uint64_t{0} - 1, context);
}

// Reserves `bytes` for the pool: first bytes freed on the same stream, then memory of the device. With the lock held.
bool growPool(Pool &pool, size_t bytes, const void *stream)
{
	Memory &all = memory();
	size_t &freed = pool.freed[stream];
	const size_t takenOver = std::min(freed, bytes), wanted = pool.used + bytes - takenOver;
	if (wanted > pool.reserved) {
		const size_t growth = roundUp(wanted - pool.reserved, poolGrain);
		if ((pool.maximum && pool.reserved + growth > roundUp(pool.maximum, poolGrain)) ||
		    all.used[size_t(pool.device)] + growth > deviceMemory())
			return false;
		all.used[size_t(pool.device)] += growth;
		pool.reserved += growth;
	}
	freed -= takenOver;
	pool.takenOver[stream] += takenOver;
	pool.used = wanted;
	pool.usedHigh = std::max(pool.usedHigh, pool.used);
	pool.reservedHigh = std::max(pool.reservedHigh, pool.reserved);
	return true;
}

void shrinkPool(Pool &pool, size_t keep) // with the lock held
{
	const size_t target = std::max(roundUp(pool.used, poolGrain), roundUp(keep, poolGrain));
	if (pool.reserved > target) {
		memory().used[size_t(pool.device)] -= pool.reserved - target;
		pool.reserved = target;
	}
}

// True if the device has `bytes` free, if need be without the idle memory of its pools. With the lock held.
bool hasRoom(int device, size_t bytes)
{
	Memory &all = memory();
	const size_t &used = all.used[size_t(device)];
	for (const Pool *pool : all.pools)
		if (used + bytes > deviceMemory() && pool->device == device)
			shrinkPool(const_cast<Pool &>(*pool), 0);
	return used + bytes <= deviceMemory();
}

void forgetSpare(std::map<uintptr_t, size_t>::iterator one) // with the lock held
{
	memory().spareBySize.erase({one->second, one->first});
	memory().spare.erase(one);
}

void addSpare(uintptr_t from, size_t bytes) // with the lock held
{
	auto &spare = memory().spare;
	auto next = spare.lower_bound(from);
	if (next != spare.end() && next->first == from + bytes) {
		bytes += next->second;
		forgetSpare(next);
	}
	auto before = spare.lower_bound(from);
	if (before != spare.begin() && (--before)->first + before->second == from) {
		from = before->first;
		bytes += before->second;
		forgetSpare(before);
	}
	spare.emplace(from, bytes);
	memory().spareBySize.emplace(bytes, from);
}

// Finds a range for an allocation, so that it ends at a guard page if there is one. With the lock held.
bool place(Allocation &one)
{
	Memory &all = memory();
	const size_t body = roundUp(one.bytes, page);
	const bool guarded = all.guarded < guardedMost;
	one.rangeBytes = body + (guarded ? page : 0);
	if (onDevice(one.kind)) {
		one.range = takeRange(one.rangeBytes);
	} else {
		void *pages = mmap(nullptr, one.rangeBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		one.range = pages == MAP_FAILED ? 0 : uintptr_t(pages);
	}
	if (!one.range)
		return false;
	all.guarded += guarded;
	one.base = one.range + body - roundUp(one.bytes, alignment);
	return true;
}

// Returns the bytes of an allocation to its pool or device. With the lock held.
void uncount(const Allocation &one)
{
	size_t bytes = roundUp(one.bytes, alignment);
	if (!one.pool) {
		memory().used[size_t(one.context->device)] -= bytes;
		return;
	}
	if (one.freedOn) {
		size_t &takenOver = one.pool->takenOver[one.freedOn];
		const size_t passedOn = std::min(takenOver, bytes);
		takenOver -= passedOn;
		bytes -= passedOn;
		one.pool->freed[one.freedOn] -= bytes;
	}
	one.pool->used -= bytes;
}

void erase(std::map<uintptr_t, Allocation>::iterator found) // with the lock held
{
	Memory &all = memory();
	const Allocation one = found->second;
	all.live.erase(found);
	if (one.kind == Allocation::Registered)
		return;
	all.guarded -= one.rangeBytes > roundUp(one.bytes, page);
	if (onDevice(one.kind)) {
		closePages(pagesOf(one), openBytes(one));
		restRange(one.range, one.rangeBytes);
		uncount(one);
	} else {
		munmap(pagesOf(one), one.rangeBytes);
	}
}

} // namespace

Memory::Memory()
{
	used.resize(size_t(deviceCount()));
	// One mapping: device addresses, the device's view of them, and a quarter of their size for `nowhere`, which allows
	// positive and negative indices.
	constexpr size_t least = size_t{1} << 30;
	for (; rangeBytes >= least; rangeBytes /= 2) {
		const size_t bytes = 2 * rangeBytes + rangeBytes / 4;
		void *all = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (all == MAP_FAILED)
			continue;
		char *nobodys = static_cast<char *>(all) + 2 * rangeBytes;
		if (mprotect(nobodys, rangeBytes / 4, PROT_READ | PROT_WRITE) == 0) {
			base = uintptr_t(all);
			offset = rangeBytes;
			next = base + page;
			nowhere = nobodys + rangeBytes / 8;
			return;
		}
		munmap(all, bytes);
	}
	rangeBytes = 0; // every allocation fails
}

Memory &memory()
{
	static auto *all = new Memory;
	return *all;
}

void closePages(void *from, size_t bytes)
{
	mmap(from, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

Allocation *containing(uintptr_t address)
{
	auto &live = memory().live;
	auto next = live.upper_bound(address);
	if (next == live.begin())
		return nullptr;
	Allocation &one = std::prev(next)->second;
	return address - one.base < one.bytes ? &one : nullptr;
}

// The smallest sufficient range among old freed ranges, or new addresses.
uintptr_t takeRange(size_t bytes)
{
	Memory &all = memory();
	if (const auto found = all.spareBySize.lower_bound({bytes, 0}); found != all.spareBySize.end()) {
		const auto [size, from] = *found;
		forgetSpare(all.spare.find(from));
		if (size > bytes)
			addSpare(from + bytes, size - bytes);
		return from;
	}
	if (bytes > all.base + all.rangeBytes - all.next)
		return 0;
	return std::exchange(all.next, all.next + bytes);
}

void restRange(uintptr_t from, size_t bytes)
{
	Memory &all = memory();
	all.resting.emplace_back(from, bytes);
	if (all.resting.size() > quarantine) {
		addSpare(all.resting.front().first, all.resting.front().second);
		all.resting.pop_front();
	}
}

cudaError_t allocate(Context &context, size_t bytes, Allocation::Kind kind, Pool *pool, bool ready, unsigned flags,
                     void **out, const void *stream)
{
	Memory &all = memory();
	Allocation one;
	one.bytes = bytes;
	one.kind = kind;
	one.context = pool && pool->device != context.device ? primaryContext(pool->device) : &context;
	one.pool = pool;
	one.ready = ready;
	one.flags = flags;
	if (bytes == 0)
		return cudaErrorInvalidValue;
	if (bytes > all.rangeBytes / 4)
		return cudaErrorMemoryAllocation;
	std::unique_lock lock(all.mutex);
	if (onDevice(kind)) {
		const size_t size = roundUp(bytes, alignment);
		if (pool) {
			if (!growPool(*pool, size, stream))
				return cudaErrorMemoryAllocation;
		} else {
			if (!hasRoom(context.device, size))
				return cudaErrorMemoryAllocation;
			all.used[size_t(context.device)] += size;
		}
	}
	if (!place(one)) {
		if (onDevice(kind))
			uncount(one);
		return cudaErrorMemoryAllocation;
	}
	one.id = ++all.ids;
	const auto row = all.live.emplace(one.base, one).first;
	if (ready && !openPages(pagesOf(one), openBytes(one))) {
		erase(row);
		return cudaErrorMemoryAllocation;
	}
	*out = reinterpret_cast<void *>(one.base);
	return cudaSuccess;
}

cudaError_t registerHost(Context &context, void *address, size_t bytes, unsigned flags)
{
	Memory &all = memory();
	std::unique_lock lock(all.mutex);
	constexpr unsigned known =
	    cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
	if (!address || bytes == 0 || flags & ~known || inDeviceRange(uintptr_t(address)))
		return cudaErrorInvalidValue;
	Allocation one;
	one.base = uintptr_t(address);
	one.bytes = bytes;
	one.kind = Allocation::Registered;
	one.context = &context;
	one.flags = flags;
	one.id = ++all.ids;
	const auto next = all.live.lower_bound(one.base);
	if (containing(one.base) || (next != all.live.end() && next->first < one.base + bytes))
		return cudaErrorHostMemoryAlreadyRegistered;
	all.live.emplace(one.base, one);
	return cudaSuccess;
}

cudaError_t unregisterHost(void *address)
{
	Memory &all = memory();
	std::unique_lock lock(all.mutex);
	const auto found = all.live.find(uintptr_t(address));
	if (found == all.live.end() || found->second.kind != Allocation::Registered)
		return cudaErrorHostMemoryNotRegistered;
	erase(found);
	return cudaSuccess;
}

std::optional<Allocation> findAllocation(const void *address)
{
	std::shared_lock lock(memory().mutex);
	const Allocation *one = containing(uintptr_t(address));
	return one ? std::optional(*one) : std::nullopt;
}

cudaError_t release(const void *base)
{
	Memory &all = memory();
	std::unique_lock lock(all.mutex);
	const auto found = all.live.find(uintptr_t(base));
	if (found == all.live.end())
		return cudaErrorInvalidValue;
	erase(found);
	return cudaSuccess;
}

void releaseAll(Context &context)
{
	Memory &all = memory();
	std::unique_lock lock(all.mutex);
	for (auto one = all.live.begin(); one != all.live.end();) {
		const auto next = std::next(one);
		if (one->second.context == &context && one->second.kind != Allocation::Mapped)
			erase(one);
		one = next;
	}
	for (const Pool *pool : all.pools)
		if (pool->device == context.device)
			shrinkPool(const_cast<Pool &>(*pool), 0);
}

void reachAllocation(void *base)
{
	Memory &all = memory();
	std::unique_lock lock(all.mutex);
	const auto found = all.live.find(uintptr_t(base));
	if (found == all.live.end() || found->second.ready)
		return;
	found->second.ready = openPages(pagesOf(found->second), openBytes(found->second));
}

void retire(void *base)
{
	Memory &all = memory();
	std::unique_lock lock(all.mutex);
	const auto found = all.live.find(uintptr_t(base));
	if (found == all.live.end())
		return;
	found->second.ready = false;
	closePages(pagesOf(found->second), openBytes(found->second));
}

bool markFreed(void *base, uint64_t sequence, const void *stream)
{
	Memory &all = memory();
	std::unique_lock lock(all.mutex);
	const auto found = all.live.find(uintptr_t(base));
	if (found == all.live.end() || found->second.kind > Allocation::Graph || found->second.freedAt != ~uint64_t{0})
		return false;
	Allocation &one = found->second;
	one.freedAt = sequence;
	if (one.pool && stream) {
		one.freedOn = stream;
		one.pool->freed[stream] += roundUp(one.bytes, alignment);
	}
	return true;
}

bool isDevicePointer(const void *address)
{
	return inDeviceRange(uintptr_t(address));
}

void *view(const void *address, size_t bytes)
{
	return currentView(address, bytes, true);
}

void *anyView(const void *address, size_t bytes)
{
	return currentView(address, bytes, false);
}

void *deviceAddress(const volatile void *pointer)
{
	if (!pointer)
		return nullptr;
	if (void *found = currentView(const_cast<const void *>(pointer), 1, true))
		return found;
	thread().illegal = true;
	return memory().nowhere;
}

void memoryInfo(int device, size_t *free, size_t *total)
{
	std::shared_lock lock(memory().mutex);
	*total = deviceMemory();
	*free = *total - memory().used[size_t(device)];
}

void trimPools(int device)
{
	std::unique_lock lock(memory().mutex);
	for (const Pool *pool : memory().pools)
		if (pool->device == device && pool->reserved > pool->threshold)
			shrinkPool(const_cast<Pool &>(*pool), size_t(pool->threshold));
}

Pool *createPool(int device, size_t maximum)
{
	auto *pool = new Pool;
	pool->device = device;
	pool->maximum = maximum;
	std::unique_lock lock(memory().mutex);
	memory().pools.insert(pool);
	return pool;
}

cudaError_t destroyPool(Pool *pool)
{
	std::unique_lock lock(memory().mutex);
	if (!memory().pools.erase(pool))
		return cudaErrorInvalidValue;
	// The allocations of the pool stay valid; their memory returns to the device later. The pool object is deleted.
	shrinkPool(*pool, 0);
	memory().used[size_t(pool->device)] -= pool->reserved - pool->used;
	pool->reserved = pool->used;
	for (const auto &[stream, bytes] : pool->takenOver) // two allocations share these bytes until the stream reaches
	                                                    // the free
		memory().used[size_t(pool->device)] += bytes;
	for (auto &[base, one] : memory().live)
		if (one.pool == pool)
			one.pool = nullptr;
	delete pool;
	return cudaSuccess;
}

bool isPool(const Pool *pool)
{
	std::shared_lock lock(memory().mutex);
	return memory().pools.count(pool);
}

void trimPool(Pool &pool, size_t keep)
{
	std::unique_lock lock(memory().mutex);
	shrinkPool(pool, keep);
}

cudaError_t changeAccess(unsigned *devices, const cudaMemAccessDesc *changes, size_t count)
{
	unsigned changed = *devices;
	if (count && !changes)
		return cudaErrorInvalidValue;
	for (const cudaMemAccessDesc *one = changes; one < changes + count; ++one) {
		if (one->location.type != cudaMemLocationTypeDevice || !primaryContext(one->location.id))
			return cudaErrorInvalidValue;
		if (one->flags == cudaMemAccessFlagsProtRead) // the host cannot make memory read-only for kernels only
			return cudaErrorNotSupported;
		const unsigned bit = 1u << one->location.id;
		changed = one->flags == cudaMemAccessFlagsProtReadWrite ? changed | bit : changed & ~bit;
	}
	*devices = changed;
	return cudaSuccess;
}

cudaError_t poolAccess(Pool *pool, const cudaMemAccessDesc *changes, size_t count)
{
	std::unique_lock lock(memory().mutex);
	return memory().pools.count(pool) ? changeAccess(&pool->access, changes, count) : cudaErrorInvalidValue;
}

cudaError_t poolAttribute(Pool *pool, int attribute, void *value, bool set)
{
	std::unique_lock lock(memory().mutex);
	if (!memory().pools.count(pool) || !value)
		return cudaErrorInvalidValue;
	const auto exchange = [&](auto &field, bool writable) {
		using Value = std::remove_reference_t<decltype(field)>;
		if (set && !writable)
			return cudaErrorInvalidValue;
		if (set)
			memcpy(&field, value, sizeof(Value));
		else
			memcpy(value, &field, sizeof(Value));
		return cudaSuccess;
	};
	switch (attribute) {
	case cudaMemPoolReuseFollowEventDependencies:
	case cudaMemPoolReuseAllowOpportunistic:
	case cudaMemPoolReuseAllowInternalDependencies:
		return exchange(pool->flags[attribute - cudaMemPoolReuseFollowEventDependencies], true);
	case cudaMemPoolAttrReleaseThreshold:
		return exchange(pool->threshold, true);
	case cudaMemPoolAttrReservedMemCurrent:
		return exchange(pool->reserved, false);
	case cudaMemPoolAttrUsedMemCurrent:
		return exchange(pool->used, false);
	case cudaMemPoolAttrReservedMemHigh:
	case cudaMemPoolAttrUsedMemHigh: {
		auto &high = attribute == cudaMemPoolAttrUsedMemHigh ? pool->usedHigh : pool->reservedHigh;
		if (set) // can only be reset to the current value
			high = attribute == cudaMemPoolAttrUsedMemHigh ? pool->used : pool->reserved;
		return set ? cudaSuccess : exchange(high, false);
	}
	}
	return cudaErrorInvalidValue;
}

} // namespace emulated
