#include "kernels.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cuda.h>
#include <cuda_runtime.h>
#include <vector>

namespace {

float *device(size_t bytes)
{
	float *out = nullptr;
	REQUIRE(cudaMalloc(reinterpret_cast<void **>(&out), bytes) == cudaSuccess);
	return out;
}

size_t freeBytes()
{
	size_t free = 0, total = 0;
	REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
	return free;
}

} // namespace

TEST_CASE("fresh memory holds NaN everywhere, also where it is large")
{
	for (const size_t bytes : {size_t{12}, size_t{1000}, size_t{70'000}, size_t{40} << 20}) {
		float *a = device(bytes);
		CHECK(reinterpret_cast<uintptr_t>(a) % 512 == 0);
		std::vector<float> host(bytes / sizeof(float));
		REQUIRE(cudaMemcpy(host.data(), a, bytes, cudaMemcpyDeviceToHost) == cudaSuccess);
		size_t numbers = 0;
		for (const float element : host)
			numbers += !std::isnan(element);
		CHECK(numbers == 0);
		CHECK(cudaFree(a) == cudaSuccess);
	}
}

TEST_CASE("ten thousand small allocations, each with its own bytes")
{
	std::vector<float *> all;
	for (int i = 0; i < 10'000; ++i) {
		all.push_back(device(64));
		REQUIRE(fill(all.back(), float(i), 16) == cudaSuccess);
	}
	for (int i = 0; i < 10'000; i += 37) {
		float value = -1;
		REQUIRE(cudaMemcpy(&value, all[size_t(i)] + 15, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
		CHECK(value == float(i));
	}
	for (float *one : all)
		REQUIRE(cudaFree(one) == cudaSuccess);
}

TEST_CASE("addresses come back, but not at once")
{
	float *first = device(50'000);
	CHECK(cudaFree(first) == cudaSuccess);
	bool again = false;
	for (int i = 0; i < 64; ++i) {
		float *next = device(50'000);
		CHECK((i > 0 || next != first));
		again |= next == first;
		CHECK(cudaFree(next) == cudaSuccess);
	}
	CHECK(again);
}

TEST_CASE("memory is counted, and its end is out of memory")
{
	const size_t before = freeBytes();
	float *a = device(1 << 20);
	CHECK(freeBytes() == before - (1 << 20));
	void *all = nullptr;
	CHECK(cudaMalloc(&all, before) == cudaErrorMemoryAllocation);
	CHECK(all == nullptr);
	CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
	CHECK(cudaGetLastError() == cudaSuccess);
	CHECK(cudaFree(a) == cudaSuccess);
	CHECK(freeBytes() == before);
	CHECK(cudaFree(nullptr) == cudaSuccess);
}

TEST_CASE("a pool keeps memory up to its threshold until it is trimmed")
{
	CUmemPoolProps properties{};
	properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
	CUmemoryPool pool = nullptr;
	const size_t before = freeBytes();
	REQUIRE(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
	cuuint64_t threshold = 8 << 20;
	REQUIRE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == CUDA_SUCCESS);
	CUdeviceptr a = 0;
	REQUIRE(cuMemAllocFromPoolAsync(&a, 20 << 20, pool, nullptr) == CUDA_SUCCESS);
	const auto number = [&](CUmemPool_attribute attribute) {
		cuuint64_t value = 0;
		CHECK(cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS);
		return value;
	};
	CHECK(number(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 20 << 20);
	CHECK(freeBytes() == before - (20 << 20));
	REQUIRE(cuMemFreeAsync(a, nullptr) == CUDA_SUCCESS);
	REQUIRE(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
	CHECK(number(CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
	CHECK(number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 8 << 20);
	CHECK(number(CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 20 << 20);
	CHECK(freeBytes() == before - (8 << 20));
	CUdeviceptr large = 0; // an allocation that needs the idle memory of the pool gets it
	CHECK(cuMemAlloc(&large, before - (4 << 20)) == CUDA_SUCCESS);
	CHECK(number(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
	CHECK(cuMemFree(large) == CUDA_SUCCESS);
	REQUIRE(cuMemAllocFromPoolAsync(&a, 8 << 20, pool, nullptr) == CUDA_SUCCESS);
	CHECK(cuMemAlloc(&large, before - (4 << 20)) == CUDA_ERROR_OUT_OF_MEMORY); // memory in use stays
	REQUIRE(cuMemFreeAsync(a, nullptr) == CUDA_SUCCESS);
	REQUIRE(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
	CHECK(freeBytes() == before - (8 << 20));
	CHECK(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
	CHECK(freeBytes() == before);
	CHECK(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
	CHECK(cuMemPoolDestroy(pool) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("attributes of pointers")
{
	float *a = device(64);
	void *host = nullptr, *managed = nullptr;
	int local = 0;
	REQUIRE(cudaMallocHost(&host, 64) == cudaSuccess);
	REQUIRE(cudaMallocManaged(&managed, 64) == cudaSuccess);
	cudaPointerAttributes facts;
	const auto typeOf = [&](const void *pointer) {
		REQUIRE(cudaPointerGetAttributes(&facts, pointer) == cudaSuccess);
		return facts.type;
	};
	CHECK(typeOf(a + 3) == cudaMemoryTypeDevice);
	CHECK(facts.hostPointer == nullptr);
	CHECK(typeOf(host) == cudaMemoryTypeHost);
	CHECK(facts.devicePointer == host);
	CHECK(typeOf(managed) == cudaMemoryTypeManaged);
	void *seen = nullptr;
	CHECK(cudaHostGetDevicePointer(&seen, host, 0) == cudaSuccess);
	CHECK(seen == host);
	CHECK(cudaHostGetDevicePointer(&seen, managed, 0) == cudaErrorInvalidValue);
	CHECK(cudaHostGetDevicePointer(&seen, a, 0) == cudaErrorInvalidValue);
	CHECK(cudaFreeHost(managed) == cudaErrorInvalidValue);
	CHECK(cudaFree(host) == cudaErrorInvalidValue);
	CHECK(std::isnan(static_cast<float *>(managed)[15]));
	for (void *pointer : {managed, static_cast<void *>(a), host}) {
		const cudaError_t expected = pointer == managed ? cudaSuccess : cudaErrorInvalidValue;
		CHECK(cudaMemPrefetchAsync(pointer, 64, {cudaMemLocationTypeDevice, {0}}, 0, nullptr) == expected);
		CHECK(cudaMemAdvise(pointer, 64, cudaMemAdviseSetReadMostly, {cudaMemLocationTypeDevice, {0}}) == expected);
		CHECK(cudaStreamAttachMemAsync(nullptr, pointer, 64, cudaMemAttachGlobal) == expected);
	}
	CHECK(cudaMemPrefetchAsync(managed, 65, {cudaMemLocationTypeDevice, {0}}, 0, nullptr) == cudaErrorInvalidValue);
	CHECK(typeOf(&local) == cudaMemoryTypeUnregistered);
	unsigned type = 0;
	CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr(&local)) ==
	      CUDA_ERROR_INVALID_VALUE);
	CHECK(cudaHostRegister(&local, sizeof local, 64) == cudaErrorInvalidValue);
	CHECK(cudaHostRegister(&local, sizeof local, 0) == cudaSuccess);
	CHECK(cudaHostGetDevicePointer(&seen, &local, 0) == cudaSuccess);
	CHECK(cudaHostRegister(&local, sizeof local, 0) == cudaErrorHostMemoryAlreadyRegistered);
	CHECK(typeOf(&local) == cudaMemoryTypeHost);
	CHECK(cudaHostUnregister(&local) == cudaSuccess);
	CHECK(cudaHostUnregister(&local) == cudaErrorHostMemoryNotRegistered);
	static_cast<float *>(managed)[0] = 5;
	CHECK(add(static_cast<float *>(managed), static_cast<float *>(managed), 1) == cudaSuccess);
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
	CHECK(static_cast<float *>(managed)[0] == 10);
	CHECK(cudaFree(managed) == cudaSuccess);
	CHECK(cudaFreeHost(host) == cudaSuccess);
	CHECK(cudaFreeHost(host) == cudaErrorInvalidValue);
	CHECK(cudaFree(a) == cudaSuccess);
}

TEST_CASE("rectangles, patterns and peers")
{
	float host[4][5], back[2][3];
	for (int y = 0; y < 4; ++y)
		for (int x = 0; x < 5; ++x)
			host[y][x] = float(10 * y + x);
	size_t pitch = 0;
	void *a = nullptr;
	REQUIRE(cudaMallocPitch(&a, &pitch, 20, 4) == cudaSuccess);
	REQUIRE(cudaMemcpy2D(a, pitch, host, 20, 20, 4, cudaMemcpyHostToDevice) == cudaSuccess);
	const auto *middle = static_cast<const char *>(a) + pitch + 4;
	REQUIRE(cudaMemcpy2D(back, 12, middle, pitch, 12, 2, cudaMemcpyDeviceToHost) == cudaSuccess);
	CHECK(back[0][0] == 11);
	CHECK(back[1][2] == 23);
	CHECK(cudaMemcpy2D(back, 8, middle, pitch, 12, 2, cudaMemcpyDeviceToHost) == cudaErrorInvalidPitchValue);
	REQUIRE(cuMemsetD32_v2(CUdeviceptr(a), 0x3f800000, 5) == CUDA_SUCCESS);
	REQUIRE(cudaMemset2D(a, pitch, 0, 4, 2) == cudaSuccess);

	REQUIRE(cudaSetDevice(1) == cudaSuccess);
	float *other = device(20);
	REQUIRE(cudaMemcpyPeer(other, 1, a, 0, 20) == cudaSuccess);
	float values[5];
	REQUIRE(cudaMemcpy(values, other, 20, cudaMemcpyDefault) == cudaSuccess);
	CHECK(values[0] == 0);
	CHECK(values[1] == 1);
	CHECK(values[4] == 1);
	CHECK(cudaFree(other) == cudaSuccess);
	REQUIRE(cudaSetDevice(0) == cudaSuccess);
	CHECK(cudaFree(a) == cudaSuccess);
}

TEST_CASE("memory mapped where the program wants it")
{
	REQUIRE(cudaFree(nullptr) == cudaSuccess);
	CUmemAllocationProp wanted{};
	wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
	CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	const size_t before = freeBytes();
	size_t grain = 0;
	REQUIRE(cuMemGetAllocationGranularity(&grain, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
	CUdeviceptr base = 0;
	CUmemGenericAllocationHandle first = 0, second = 0;
	REQUIRE(cuMemAddressReserve(&base, 4 * grain, 0, 0, 0) == CUDA_SUCCESS);
	CHECK(base % grain == 0);
	CHECK(cuMemCreate(&first, grain + 1, &wanted, 0) == CUDA_ERROR_INVALID_VALUE);
	CHECK(cuMemCreate(&first, (before / grain + 1) * grain, &wanted, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	REQUIRE(cuMemCreate(&first, grain, &wanted, 0) == CUDA_SUCCESS);
	REQUIRE(cuMemCreate(&second, grain, &wanted, 0) == CUDA_SUCCESS);
	CHECK(freeBytes() == before - 2 * grain);
	REQUIRE(cuMemMap(base, grain, 0, first, 0) == CUDA_SUCCESS);
	CHECK(cuMemMap(base, grain, 0, second, 0) == CUDA_ERROR_INVALID_VALUE);             // taken
	CHECK(cuMemMap(base + 512, grain, 0, second, 0) == CUDA_ERROR_INVALID_VALUE);       // between the grains
	CHECK(cuMemMap(base + 4 * grain, grain, 0, second, 0) == CUDA_ERROR_INVALID_VALUE); // not reserved
	CHECK(cuMemMap(base + grain, 2 * grain, 0, second, 0) == CUDA_ERROR_INVALID_VALUE); // more than the allocation has
	CHECK(cuMemMap(base + grain, grain, 0, second + 100, 0) == CUDA_ERROR_INVALID_VALUE);
	REQUIRE(cuMemMap(base + grain, grain, 0, second, 0) == CUDA_SUCCESS);
	CHECK(cuMemSetAccess(base, 3 * grain, &access, 1) == CUDA_ERROR_INVALID_VALUE);
	REQUIRE(cuMemSetAccess(base, 2 * grain, &access, 1) == CUDA_SUCCESS);

	// One range across the border, and the same bytes at another address.
	REQUIRE(cuMemMap(base + 3 * grain, grain, 0, second, 0) == CUDA_SUCCESS);
	REQUIRE(cuMemSetAccess(base + 3 * grain, grain, &access, 1) == CUDA_SUCCESS);
	const auto at = [&](size_t offset) { return reinterpret_cast<float *>(base + offset); };
	float values[8];
	REQUIRE(cudaMemcpy(values, at(grain - 16), 32, cudaMemcpyDeviceToHost) == cudaSuccess);
	CHECK((std::isnan(values[0]) && std::isnan(values[7])));
	REQUIRE(fill(at(grain - 16), 5, 8) == cudaSuccess);
	REQUIRE(cudaMemcpy(values, at(3 * grain), 16, cudaMemcpyDeviceToHost) == cudaSuccess);
	CHECK(values[3] == 5);
	cudaPointerAttributes facts;
	REQUIRE(cudaPointerGetAttributes(&facts, at(8)) == cudaSuccess);
	CHECK(facts.type == cudaMemoryTypeDevice);
	CHECK(cudaFree(at(0)) == cudaErrorInvalidValue);
	CHECK(cudaFreeAsync(at(0), nullptr) == cudaErrorInvalidValue);

	CHECK(cuMemUnmap(base, grain / 2) == CUDA_ERROR_INVALID_VALUE);
	REQUIRE(cuMemRelease(second) == CUDA_SUCCESS);
	CHECK(cuMemRelease(second) == CUDA_ERROR_INVALID_VALUE);
	REQUIRE(cuMemUnmap(base, 2 * grain) == CUDA_SUCCESS);
	CHECK(cuMemUnmap(base, grain) == CUDA_ERROR_INVALID_VALUE);
	CHECK(freeBytes() == before - 2 * grain); // one is released by its handle, one by its other mapping
	REQUIRE(cudaMemcpy(values, at(3 * grain), 16, cudaMemcpyDeviceToHost) == cudaSuccess);
	CHECK(values[0] == 5);
	CHECK(cuMemAddressFree(base, 4 * grain) == CUDA_ERROR_INVALID_VALUE);
	REQUIRE(cuMemUnmap(base + 3 * grain, grain) == CUDA_SUCCESS);
	REQUIRE(cuMemRelease(first) == CUDA_SUCCESS);
	CHECK(freeBytes() == before);
	CHECK(cuMemAddressFree(base, grain) == CUDA_ERROR_INVALID_VALUE);

	REQUIRE(cuMemCreate(&first, 2 * grain, &wanted, 0) == CUDA_SUCCESS);
	REQUIRE(cuMemMap(base, 2 * grain, 0, first, 0) == CUDA_SUCCESS);
	CHECK(cuMemMap(base + grain, grain, 0, first, 0) == CUDA_ERROR_INVALID_VALUE); // in the middle of another
	REQUIRE(cuMemUnmap(base, 2 * grain) == CUDA_SUCCESS);
	REQUIRE(cuMemRelease(first) == CUDA_SUCCESS);
	CHECK(cuMemAddressFree(base, 4 * grain) == CUDA_SUCCESS);
}
