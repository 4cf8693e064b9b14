#include "memory.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

// Physical memory is a file, so that it can be mapped at several addresses. A mapping is an allocation without access
// until access is granted. Neither belongs to a context, and no function here waits for running work.
namespace emulated {
namespace {

struct Physical {
	int device, file;
	size_t bytes, mappings = 0;
	bool held = true; // the program has not released its handle
};
struct Reservation {
	size_t bytes;
	uintptr_t range;
	size_t rangeBytes;
};

// Under Memory::mutex.
struct Mappings {
	std::unordered_map<const void *, Physical> physical;
	std::map<uintptr_t, Reservation> reserved;
};

Mappings &mappings()
{
	static auto *all = new Mappings;
	return *all;
}

void dropUnused(const void *handle)
{
	const auto found = mappings().physical.find(handle);
	if (found->second.held || found->second.mappings)
		return;
	memory().used[size_t(found->second.device)] -= found->second.bytes;
	close(found->second.file);
	mappings().physical.erase(found);
}

// The mappings that form a range. Empty if the range does not consist of whole mappings.
std::vector<Allocation *> mappedIn(uintptr_t from, size_t bytes)
{
	std::vector<Allocation *> all;
	for (uintptr_t at = from; at < from + bytes; at += all.back()->bytes) {
		Allocation *one = containing(at);
		if (!one || one->kind != Allocation::Mapped || one->base != at || one->bytes > from + bytes - at)
			return {};
		all.push_back(one);
	}
	return all;
}

} // namespace

cudaError_t createPhysical(const void **handle, size_t bytes, int device)
{
	if (bytes == 0 || bytes % mappingGrain)
		return cudaErrorInvalidValue;
	std::unique_lock lock(memory().mutex);
	size_t &used = memory().used[size_t(device)];
	if (used + bytes > deviceMemory())
		return cudaErrorMemoryAllocation;
	const int file = memfd_create("autoamp-emulated-physical", MFD_CLOEXEC);
	void *view = file >= 0 && ftruncate(file, off_t(bytes)) == 0
	                 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
	                 : MAP_FAILED;
	if (view == MAP_FAILED) {
		close(file);
		return cudaErrorMemoryAllocation;
	}
	memset(view, 0xff, bytes);
	munmap(view, bytes);
	used += bytes;
	*handle = reinterpret_cast<const void *>(++memory().ids);
	mappings().physical.insert({*handle, {device, file, bytes}});
	return cudaSuccess;
}

cudaError_t releasePhysical(const void *handle)
{
	std::unique_lock lock(memory().mutex);
	const auto found = mappings().physical.find(handle);
	if (found == mappings().physical.end() || !std::exchange(found->second.held, false))
		return cudaErrorInvalidValue;
	dropUnused(handle);
	return cudaSuccess;
}

cudaError_t reserveAddresses(void **out, size_t bytes, size_t alignment)
{
	if (!out || bytes == 0 || bytes % page || alignment & (alignment - 1))
		return cudaErrorInvalidValue;
	alignment = std::max(alignment, mappingGrain);
	std::unique_lock lock(memory().mutex);
	const size_t rangeBytes = bytes + alignment + page;
	const uintptr_t range = takeRange(rangeBytes);
	if (!range)
		return cudaErrorMemoryAllocation;
	const uintptr_t base = roundUp(range, alignment);
	mappings().reserved.insert({base, {bytes, range, rangeBytes}});
	*out = reinterpret_cast<void *>(base);
	return cudaSuccess;
}

cudaError_t freeAddresses(void *address, size_t bytes)
{
	std::unique_lock lock(memory().mutex);
	const auto found = mappings().reserved.find(uintptr_t(address));
	if (found == mappings().reserved.end() || found->second.bytes != bytes)
		return cudaErrorInvalidValue;
	const auto mapped = memory().live.lower_bound(found->first);
	if (mapped != memory().live.end() && mapped->first < found->first + bytes)
		return cudaErrorInvalidValue;
	restRange(found->second.range, found->second.rangeBytes);
	mappings().reserved.erase(found);
	return cudaSuccess;
}

cudaError_t mapMemory(void *address, size_t bytes, size_t offset, const void *handle)
{
	const auto base = uintptr_t(address);
	std::unique_lock lock(memory().mutex);
	const auto found = mappings().physical.find(handle);
	auto reserved = mappings().reserved.upper_bound(base);
	if (bytes == 0 || (base | bytes | offset) % mappingGrain || found == mappings().physical.end() ||
	    !found->second.held || reserved == mappings().reserved.begin())
		return cudaErrorInvalidValue;
	--reserved;
	const auto next = memory().live.lower_bound(base);
	if (offset || bytes > found->second.bytes || base + bytes > reserved->first + reserved->second.bytes ||
	    containing(base) || (next != memory().live.end() && next->first < base + bytes))
		return cudaErrorInvalidValue;
	if (mmap(reinterpret_cast<void *>(base + memory().offset), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
	         found->second.file, 0) == MAP_FAILED)
		return cudaErrorMemoryAllocation;
	Allocation one;
	one.base = base;
	one.bytes = bytes;
	one.kind = Allocation::Mapped;
	one.context = primaryContext(found->second.device);
	one.physical = handle;
	one.id = ++memory().ids;
	memory().live.emplace(base, one);
	++found->second.mappings;
	return cudaSuccess;
}

cudaError_t unmapMemory(void *address, size_t bytes)
{
	std::unique_lock lock(memory().mutex);
	const auto mapped = mappedIn(uintptr_t(address), bytes);
	for (const Allocation *one : mapped) {
		const void *const handle = one->physical;
		closePages(reinterpret_cast<void *>(one->base + memory().offset), one->bytes);
		memory().live.erase(one->base);
		--mappings().physical.at(handle).mappings;
		dropUnused(handle);
	}
	return mapped.empty() ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t mappingAccess(void *address, size_t bytes, const cudaMemAccessDesc *changes, size_t count)
{
	std::unique_lock lock(memory().mutex);
	const auto mapped = mappedIn(uintptr_t(address), bytes);
	for (Allocation *one : mapped)
		if (const cudaError_t error = changeAccess(&one->access, changes, count))
			return error;
	return mapped.empty() ? cudaErrorInvalidValue : cudaSuccess;
}

} // namespace emulated
