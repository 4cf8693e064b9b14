// Memory pools. The amounts are large parts of the memory, because other processes can use the device at the same time.
#include "hardware.h"

#include <cuda.h>

namespace hardware {
namespace {

constexpr size_t unit = 64 << 20;

cudaMemPool_t newPool(uint64_t threshold)
{
	cudaMemPool_t pool = nullptr;
	CHECK(makePool(&pool));
	CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
	return pool;
}

void useAndFree(const Session &session, cudaMemPool_t pool, size_t bytes)
{
	void *memory = nullptr;
	CHECK(cudaMallocFromPoolAsync(&memory, bytes, pool, session.stream));
	CHECK(cudaFreeAsync(memory, session.stream));
	CHECK(cudaStreamSynchronize(session.stream));
}

// A pool that keeps `bytes` and uses none of them.
cudaMemPool_t idlePool(const Session &session, size_t bytes)
{
	const cudaMemPool_t pool = newPool(UINT64_MAX);
	useAndFree(session, pool, bytes);
	return pool;
}

uint64_t reservedIn(cudaMemPool_t pool)
{
	uint64_t bytes = 0;
	CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
	return bytes;
}

size_t freeMemory()
{
	size_t free = 0, total = 0;
	CHECK(cudaMemGetInfo(&free, &total));
	return free;
}

// The application asks for three quarters of the memory, of which a pool keeps half.
std::string idlePoolMakesRoom(Line &line)
{
	Session session;
	const size_t free = freeMemory();
	const cudaMemPool_t pool = idlePool(session, free / 2);
	void *memory = nullptr;
	const cudaError_t status = cudaMalloc(&memory, free / 4 * 3);
	line.put("status", status);
	cudaGetLastError();
	CHECK(cudaFree(memory));
	CHECK(cudaMemPoolDestroy(pool));
	return answer(status == cudaSuccess);
}

// While something runs that only ends when the pool has been trimmed.
std::string trimmingWaits(Line &)
{
	Session session, other;
	const cudaMemPool_t pool = idlePool(session, unit);
	Gate gate(other.stream);
	CHECK(cudaMemPoolTrimTo(pool, 0));
	gate.open();
	CHECK(cudaStreamSynchronize(other.stream));
	CHECK(cudaMemPoolDestroy(pool));
	return answer(gate.hasExpired());
}

std::string keepsFreedMemory(Line &line)
{
	Session session;
	const cudaMemPool_t pool = newPool(2 * unit);
	useAndFree(session, pool, unit);
	CHECK(cudaDeviceSynchronize());
	const uint64_t kept = reservedIn(pool);
	line.put("kept", static_cast<long long>(kept));
	CHECK(cudaMemPoolDestroy(pool));
	return answer(kept >= unit);
}

std::string releasesTheRest(Line &line)
{
	Session session;
	const cudaMemPool_t pool = newPool(unit);
	useAndFree(session, pool, 3 * unit);
	CHECK(cudaStreamSynchronize(session.stream));
	const uint64_t kept = reservedIn(pool);
	line.put("kept", static_cast<long long>(kept));
	CHECK(cudaMemPoolDestroy(pool));
	return answer(kept <= unit);
}

std::string trims(Line &line)
{
	Session session;
	const size_t bytes = freeMemory() / 2;
	const cudaMemPool_t pool = idlePool(session, bytes);
	const size_t before = freeMemory();
	CHECK(cudaMemPoolTrimTo(pool, 0));
	const uint64_t kept = reservedIn(pool);
	const auto gained = static_cast<long long>(freeMemory()) - static_cast<long long>(before);
	line.put("kept", static_cast<long long>(kept)).put("gained", gained);
	CHECK(cudaMemPoolDestroy(pool));
	return answer(kept == 0 && gained >= static_cast<long long>(bytes / 2));
}

// Idle memory and memory in use, of a pool that is never destroyed.
std::string resetFrees(Line &line)
{
	CHECK(cudaFree(nullptr));
	const size_t before = freeMemory();
	auto *const session = new Session;
	const cudaMemPool_t pool = idlePool(*session, before / 4);
	void *memory = nullptr;
	CHECK(cudaMallocFromPoolAsync(&memory, before / 8, pool, session->stream));
	CHECK(cudaStreamSynchronize(session->stream));
	CHECK(cudaDeviceReset());
	const auto lost = static_cast<long long>(before) - static_cast<long long>(freeMemory());
	line.put("lost", lost);
	return answer(lost < static_cast<long long>(before / 16));
}

// Probes read only memory that the driver calls device or unified memory, and that belongs to the device.
std::string typesOfMemory(Line &line)
{
	void *plain = nullptr, *pooled = nullptr, *managed = nullptr, *pinned = nullptr;
	CHECK(cudaMalloc(&plain, 256));
	CHECK(cudaMallocAsync(&pooled, 256, nullptr));
	CHECK(cudaMallocManaged(&managed, 256));
	CHECK(cudaMallocHost(&pinned, 256));
	CHECK(cudaDeviceSynchronize());
	const auto attribute = driver<decltype(&::cuPointerGetAttribute)>("cuPointerGetAttribute");
	const auto has = [&](void *memory, unsigned type) {
		unsigned found = 0;
		int device = -1;
		const auto pointer = reinterpret_cast<CUdeviceptr>(memory) + 4;
		return attribute(&found, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) == CUDA_SUCCESS && found == type &&
		       attribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer) == CUDA_SUCCESS && device == 0;
	};
	unsigned managedType = 0;
	attribute(&managedType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(managed));
	line.put("managed", static_cast<long long>(managedType));
	const bool areRight = has(plain, CU_MEMORYTYPE_DEVICE) && has(pooled, CU_MEMORYTYPE_DEVICE) &&
	                      (has(managed, CU_MEMORYTYPE_DEVICE) || has(managed, CU_MEMORYTYPE_UNIFIED)) &&
	                      has(pinned, CU_MEMORYTYPE_HOST);
	CHECK(cudaFree(plain));
	CHECK(cudaFree(managed));
	CHECK(cudaFreeHost(pinned));
	CHECK(cudaFreeAsync(pooled, nullptr));
	return answer(areRight);
}

} // namespace

cudaError_t makePool(cudaMemPool_t *pool)
{
	cudaMemPoolProps properties = {};
	properties.allocType = cudaMemAllocationTypePinned;
	properties.location = {cudaMemLocationTypeDevice, 0};
	return cudaMemPoolCreate(pool, &properties);
}

Rows memoryRows()
{
	return {
	    {"memory.an_idle_pool_makes_room_for_malloc", yes, recorded, shared, idlePoolMakesRoom},
	    {"memory.trimming_a_pool_waits_for_the_device", no, recorded, shared, trimmingWaits},
	    {"memory.a_pool_keeps_freed_memory_up_to_its_threshold", yes, recorded, shared, keepsFreedMemory},
	    {"memory.a_pool_releases_memory_beyond_its_threshold", yes, recorded, shared, releasesTheRest},
	    {"memory.trimming_a_pool_releases_its_memory", yes, recorded, shared, trims},
	    {"memory.a_reset_frees_pools", yes, recorded, own, resetFrees},
	    {"memory.its_type_and_device_are_known", yes, recorded, shared, typesOfMemory},
	};
}

} // namespace hardware
