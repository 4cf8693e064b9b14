// The emulated driver API: what its exported functions do; generate_front.py wraps them. Any thread.
#pragma once

#define __CUDA_API_VERSION_INTERNAL // names as they are exported: no macro makes cuMemAlloc_v2 of cuMemAlloc
#include <cuda.h>

#include "front.h"

#include <cstring>

extern const emulated::ErrorName errorNames[];

// A driver function by the name and the CUDA version in which it came, and by its exported name.
struct VersionedName {
	const char *name;
	int version;
	const char *symbol;
};
extern const VersionedName versionedNames[];
struct ExportedName {
	const char *symbol;
	void *address;
};
extern const ExportedName exportedNames[];

struct Driver {
	using Allocation = emulated::Allocation;
	using Function = emulated::Function;

	// The numbers are the runtime's but for a few that the driver does not have.
	static CUresult as(cudaError_t error)
	{
		switch (error) {
		case cudaErrorInvalidConfiguration:
		case cudaErrorInvalidPitchValue:
		case cudaErrorInvalidMemcpyDirection:
			return CUDA_ERROR_INVALID_VALUE;
		default:
			return CUresult(error);
		}
	}
	template <class Work>
	static CUresult enter(emulated::Entry &entry, bool perThread, Work work)
	{
		if (const cudaError_t error = entry.begin())
			return as(error);
		if (!emulated::isInitialized())
			return CUDA_ERROR_NOT_INITIALIZED;
		const emulated::CallScope scope(true, perThread);
		return work();
	}
	static int refuse(emulated::Entry &entry)
	{
		if (const cudaError_t error = entry.begin())
			return as(error);
		emulated::missing(entry.name);
		return CUDA_ERROR_NOT_SUPPORTED;
	}

	template <class Out, class Value>
	static CUresult give(Out *out, Value value)
	{
		return as(emulated::give(out, value));
	}
	static void *pointer(CUdeviceptr address) { return reinterpret_cast<void *>(address); }
	static void **pointer(CUdeviceptr *address) { return reinterpret_cast<void **>(address); }
	static emulated::Pool *poolOf(CUmemoryPool pool) { return reinterpret_cast<emulated::Pool *>(pool); }
	static emulated::Context *contextOf(CUcontext context) { return reinterpret_cast<emulated::Context *>(context); }
	static CUcontext handleOf(emulated::Context *context) { return reinterpret_cast<CUcontext>(context); }
	static emulated::Context *deviceContext(CUdevice device) { return emulated::primaryContext(device); }
	static std::vector<emulated::Context *> &stack() { return emulated::thread().contexts; }

	// ---- devices
	static CUresult cuDeviceGet(CUdevice *out, int ordinal)
	{
		return deviceContext(ordinal) ? give(out, ordinal) : CUDA_ERROR_INVALID_DEVICE;
	}
	static CUresult cuDeviceGetCount(int *count) { return give(count, emulated::deviceCount()); }
	static CUresult cuDeviceGetName(char *name, int length, CUdevice device)
	{
		if (!deviceContext(device))
			return CUDA_ERROR_INVALID_DEVICE;
		if (!name || length <= 0)
			return CUDA_ERROR_INVALID_VALUE;
		snprintf(name, size_t(length), "%s", emulated::deviceName);
		return CUDA_SUCCESS;
	}
	static CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
	{
		if (!deviceContext(device))
			return CUDA_ERROR_INVALID_DEVICE;
		CUuuid value{};
		value.bytes[0] = char(device + 1);
		return give(uuid, value);
	}
	static CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
	{
		return deviceContext(device) ? give(bytes, emulated::deviceMemory()) : CUDA_ERROR_INVALID_DEVICE;
	}
	static CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
	{
		return as(emulated::deviceAttribute(value, attribute, device));
	}
	static CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
	{
		const CUresult error = cuDeviceGetAttribute(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
		return error ? error : cuDeviceGetAttribute(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
	}
	static CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
	{
		if (!deviceContext(device))
			return CUDA_ERROR_INVALID_DEVICE;
		if (!text || length < 13)
			return CUDA_ERROR_INVALID_VALUE;
		snprintf(text, size_t(length), "0000:%02x:00.0", device + 1);
		return CUDA_SUCCESS;
	}
	static CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
	{
		return deviceContext(device) && deviceContext(peer) ? give(can, device != peer) : CUDA_ERROR_INVALID_DEVICE;
	}
	static CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
	{
		emulated::Context *primary = deviceContext(device);
		return primary ? give(pool, reinterpret_cast<CUmemoryPool>(primary->defaultPool)) : CUDA_ERROR_INVALID_DEVICE;
	}
	static CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
	{
		emulated::Context *primary = deviceContext(device);
		return primary ? give(pool, reinterpret_cast<CUmemoryPool>(primary->pool)) : CUDA_ERROR_INVALID_DEVICE;
	}
	static CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
	{
		emulated::Context *primary = deviceContext(device);
		if (!primary || !emulated::isPool(poolOf(pool)))
			return CUDA_ERROR_INVALID_VALUE;
		primary->pool = poolOf(pool);
		return CUDA_SUCCESS;
	}

	// ---- contexts
	static CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
	{
		emulated::Context *primary = deviceContext(device);
		if (!primary)
			return CUDA_ERROR_INVALID_DEVICE;
		emulated::activate(*primary);
		++primary->references;
		return give(out, handleOf(primary));
	}
	static CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
	{
		emulated::Context *primary = deviceContext(device);
		if (!primary || primary->references == 0)
			return primary ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_DEVICE;
		return --primary->references ? CUDA_SUCCESS : as(emulated::teardown(*primary));
	}
	static CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
	{
		emulated::Context *primary = deviceContext(device);
		return primary ? as(emulated::teardown(*primary)) : CUDA_ERROR_INVALID_DEVICE;
	}
	static CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int)
	{
		return deviceContext(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
	}
	static CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
	{
		emulated::Context *primary = deviceContext(device);
		if (!primary)
			return CUDA_ERROR_INVALID_DEVICE;
		*flags = 0;
		return give(active, primary->alive.load());
	}
	static CUresult cuCtxCreate_v2(CUcontext *out, unsigned int, CUdevice device)
	{
		if (!deviceContext(device))
			return CUDA_ERROR_INVALID_DEVICE;
		if (!out)
			return CUDA_ERROR_INVALID_VALUE;
		stack().push_back(emulated::createContext(device));
		*out = handleOf(stack().back());
		return CUDA_SUCCESS;
	}
	static CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *, unsigned int flags, CUdevice device)
	{
		return cuCtxCreate_v2(out, flags, device);
	}
	static CUresult cuCtxDestroy_v2(CUcontext handle)
	{
		emulated::Context *context = contextOf(handle);
		if (!context || !emulated::isContext(context) || context->primary)
			return CUDA_ERROR_INVALID_CONTEXT;
		if (!stack().empty() && stack().back() == context)
			stack().pop_back();
		return as(emulated::teardown(*context));
	}
	static CUresult cuCtxGetCurrent(CUcontext *out)
	{
		return give(out, handleOf(stack().empty() ? nullptr : stack().back()));
	}
	static CUresult cuCtxSetCurrent(CUcontext handle)
	{
		emulated::Context *context = contextOf(handle);
		if (context && !emulated::isContext(context))
			return CUDA_ERROR_INVALID_CONTEXT;
		if (stack().empty())
			stack().push_back(nullptr);
		stack().back() = context;
		return CUDA_SUCCESS;
	}
	static CUresult cuCtxPushCurrent_v2(CUcontext handle)
	{
		emulated::Context *context = contextOf(handle);
		if (!context || !emulated::isContext(context))
			return CUDA_ERROR_INVALID_CONTEXT;
		stack().push_back(context);
		return CUDA_SUCCESS;
	}
	static CUresult cuCtxPopCurrent_v2(CUcontext *out)
	{
		if (stack().empty() || !stack().back())
			return CUDA_ERROR_INVALID_CONTEXT;
		if (out)
			*out = handleOf(stack().back());
		stack().pop_back();
		return CUDA_SUCCESS;
	}
	// Runs `work` on the current context, which must be there and unbroken.
	template <class Work>
	static CUresult inContext(Work work)
	{
		emulated::Context *context = nullptr;
		const cudaError_t error = emulated::requireContext(&context);
		return error ? as(error) : work(*context);
	}
	static CUresult cuCtxGetDevice(CUdevice *device)
	{
		return inContext([=](auto &context) { return give(device, context.device); });
	}
	static CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext context)
	{
		if (!context)
			return cuCtxGetDevice(device);
		return emulated::isContext(contextOf(context)) ? give(device, contextOf(context)->device)
		                                               : CUDA_ERROR_INVALID_CONTEXT;
	}
	static CUresult cuCtxGetId(CUcontext handle, unsigned long long *id)
	{
		if (!handle)
			return inContext([=](auto &context) { return give(id, context.id.load()); });
		emulated::Context *context = contextOf(handle);
		return emulated::isContext(context) && context->alive ? give(id, context->id.load())
		                                                      : CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	static CUresult cuCtxSynchronize() { return as(emulated::synchronizeContext()); }
	static CUresult cuCtxGetApiVersion(CUcontext, unsigned int *version) { return give(version, CUDA_VERSION); }
	static CUresult cuCtxGetFlags(unsigned int *flags) { return give(flags, 0); }
	static CUresult cuCtxSetLimit(CUlimit, size_t)
	{
		return inContext([](auto &) { return CUDA_SUCCESS; });
	}
	static CUresult cuCtxSetCacheConfig(CUfunc_cache)
	{
		return inContext([](auto &) { return CUDA_SUCCESS; });
	}
	static CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
	{
		if (least)
			*least = 0;
		if (greatest)
			*greatest = -5;
		return CUDA_SUCCESS;
	}
	static CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int)
	{
		if (!emulated::isContext(contextOf(peer)))
			return CUDA_ERROR_INVALID_CONTEXT;
		return inContext([&](auto &context) {
			const unsigned bit = 1u << contextOf(peer)->device;
			return context.peers.fetch_or(bit) & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
		});
	}

	// ---- memory
	static CUresult take(void **out, size_t bytes, Allocation::Kind kind, unsigned flags)
	{
		return inContext([=](auto &context) {
			if (!out)
				return CUDA_ERROR_INVALID_VALUE;
			const cudaError_t error = emulated::unsafeCall();
			return as(error ? error : emulated::allocate(context, bytes, kind, nullptr, true, flags, out));
		});
	}
	static CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t bytes)
	{
		return take(pointer(out), bytes, Allocation::Device, 0);
	}
	static CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height, unsigned int)
	{
		if (!pitch)
			return CUDA_ERROR_INVALID_VALUE;
		*pitch = (width + 511) / 512 * 512;
		return take(pointer(out), *pitch * height, Allocation::Device, 0);
	}
	static CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
	{
		return take(pointer(out), bytes, Allocation::Managed, flags);
	}
	static CUresult cuMemAllocHost_v2(void **out, size_t bytes) { return take(out, bytes, Allocation::Pinned, 0); }
	static CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
	{
		return flags > 7 ? CUDA_ERROR_INVALID_VALUE : take(out, bytes, Allocation::Pinned, flags);
	}
	static CUresult cuMemFree_v2(CUdeviceptr address) { return as(emulated::freeNow(pointer(address))); }
	static CUresult cuMemFreeHost(void *address) { return as(emulated::freeHostNow(address)); }
	static CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned int flags)
	{
		return inContext([=](auto &context) {
			const cudaError_t error = emulated::unsafeCall();
			return as(error ? error : emulated::registerHost(context, address, bytes, flags));
		});
	}
	static CUresult cuMemHostUnregister(void *address) { return as(emulated::unregisterHost(address)); }
	static CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *address, unsigned int flags)
	{
		const auto one = emulated::findAllocation(address);
		if (flags || !one || one->kind < Allocation::Pinned)
			return CUDA_ERROR_INVALID_VALUE;
		return give(out, uintptr_t(address));
	}
	static CUresult cuMemHostGetFlags(unsigned int *flags, void *address)
	{
		const auto one = emulated::findAllocation(address);
		return one && one->kind == Allocation::Pinned ? give(flags, one->flags) : CUDA_ERROR_INVALID_VALUE;
	}
	static CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
	{
		if (!free || !total)
			return CUDA_ERROR_INVALID_VALUE;
		return inContext([=](auto &context) {
			emulated::memoryInfo(context.device, free, total);
			return CUDA_SUCCESS;
		});
	}
	static CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
	{
		const auto one = emulated::findAllocation(pointer(address));
		if (!one)
			return CUDA_ERROR_NOT_FOUND;
		if (base)
			*base = one->base;
		if (bytes)
			*bytes = one->bytes;
		return CUDA_SUCCESS;
	}
	static CUresult cuMemAdvise_v2(CUdeviceptr, size_t, CUmem_advise, CUmemLocation) { return CUDA_SUCCESS; }
	static CUresult cuMemPrefetchAsync_v2(CUdeviceptr, size_t, CUmemLocation, unsigned int, CUstream)
	{
		return CUDA_SUCCESS;
	}

	// What is known of a pointer; false: the attribute has no meaning for it.
	static bool pointerFact(void *out, CUpointer_attribute attribute, CUdeviceptr address)
	{
		const auto one = emulated::findAllocation(pointer(address));
		const auto put = [out](auto value) {
			memcpy(out, &value, sizeof value);
			return true;
		};
		if (!one)
			return false;
		const bool device = one->kind == Allocation::Device || one->kind == Allocation::Graph;
		switch (attribute) {
		case CU_POINTER_ATTRIBUTE_CONTEXT:
			return put(one->pool ? nullptr : handleOf(one->context));
		case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
			return put(
			    unsigned(device || one->kind == Allocation::Managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST));
		case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
			return put(address);
		case CU_POINTER_ATTRIBUTE_HOST_POINTER:
			return !device && put(pointer(address));
		case CU_POINTER_ATTRIBUTE_BUFFER_ID:
			return put((unsigned long long)(one->id));
		case CU_POINTER_ATTRIBUTE_IS_MANAGED:
			return put(unsigned(one->kind == Allocation::Managed));
		case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
			return put(one->context->device);
		case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
			return put(CUdeviceptr(one->base));
		case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
			return put(one->bytes);
		case CU_POINTER_ATTRIBUTE_MAPPED:
			return put(1u);
		case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
			return put(reinterpret_cast<CUmemoryPool>(one->pool));
		default:
			return false;
		}
	}
	static CUresult cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr address)
	{
		return out && pointerFact(out, attribute, address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	}
	static CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **out,
	                                       CUdeviceptr address)
	{
		if (!attributes || !out)
			return CUDA_ERROR_INVALID_VALUE;
		for (unsigned i = 0; i < count; ++i)
			if (!pointerFact(out[i], attributes[i], address)) {
				const bool narrow = attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
				                    attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
				                    attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ||
				                    attributes[i] == CU_POINTER_ATTRIBUTE_MAPPED;
				memset(out[i], attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? 0xfe : 0, narrow ? 4 : 8);
			}
		return CUDA_SUCCESS;
	}

	// ---- stream-ordered memory
	static CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
	{
		return bytes ? as(emulated::allocateAsync(pointer(out), bytes, nullptr, stream)) : CUDA_ERROR_INVALID_VALUE;
	}
	static CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
	{
		if (bytes == 0 || !emulated::isPool(poolOf(pool)))
			return CUDA_ERROR_INVALID_VALUE;
		return as(emulated::allocateAsync(pointer(out), bytes, poolOf(pool), stream));
	}
	static CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream)
	{
		return as(emulated::freeAsync(pointer(address), stream));
	}
	static CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *properties)
	{
		if (!out || !properties || properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
			return CUDA_ERROR_INVALID_VALUE;
		if (!deviceContext(properties->location.id))
			return CUDA_ERROR_INVALID_DEVICE;
		if (const cudaError_t error = emulated::unsafeCall())
			return as(error);
		*out = reinterpret_cast<CUmemoryPool>(emulated::createPool(properties->location.id, properties->maxSize));
		return CUDA_SUCCESS;
	}
	static CUresult cuMemPoolDestroy(CUmemoryPool pool) { return as(emulated::destroyPool(poolOf(pool))); }
	static CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
	{
		if (!emulated::isPool(poolOf(pool)))
			return CUDA_ERROR_INVALID_VALUE;
		if (const cudaError_t error = emulated::unsafeCall())
			return as(error);
		emulated::trimPool(*poolOf(pool), keep);
		return CUDA_SUCCESS;
	}
	static CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
	{
		return as(emulated::poolAttribute(poolOf(pool), attribute, value, true));
	}
	static CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
	{
		return as(emulated::poolAttribute(poolOf(pool), attribute, value, false));
	}
	static CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *, size_t)
	{
		return emulated::isPool(poolOf(pool)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	}

	// ---- copies
	static CUresult move(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, CUstream stream, bool async)
	{
		return as(emulated::copy({to, bytes, from, bytes, bytes, 1}, kind, stream, async));
	}
	static CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
	{
		return move(pointer(to), pointer(from), bytes, cudaMemcpyDefault, nullptr, false);
	}
	static CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
	{
		return move(pointer(to), pointer(from), bytes, cudaMemcpyDefault, stream, true);
	}
	static CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
	{
		return move(pointer(to), from, bytes, cudaMemcpyHostToDevice, nullptr, false);
	}
	static CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
	{
		return move(pointer(to), from, bytes, cudaMemcpyHostToDevice, stream, true);
	}
	static CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
	{
		return move(to, pointer(from), bytes, cudaMemcpyDeviceToHost, nullptr, false);
	}
	static CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
	{
		return move(to, pointer(from), bytes, cudaMemcpyDeviceToHost, stream, true);
	}
	static CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
	{
		return move(pointer(to), pointer(from), bytes, cudaMemcpyDeviceToDevice, nullptr, false);
	}
	static CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
	{
		return move(pointer(to), pointer(from), bytes, cudaMemcpyDeviceToDevice, stream, true);
	}
	static CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes)
	{
		return move(pointer(to), pointer(from), bytes, cudaMemcpyDeviceToDevice, nullptr, false);
	}
	static CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
	                                  CUstream stream)
	{
		return move(pointer(to), pointer(from), bytes, cudaMemcpyDeviceToDevice, stream, true);
	}
	static CUresult move2D(const CUDA_MEMCPY2D *what, CUstream stream, bool async)
	{
		if (!what)
			return CUDA_ERROR_INVALID_VALUE;
		if (what->srcMemoryType == CU_MEMORYTYPE_ARRAY || what->dstMemoryType == CU_MEMORYTYPE_ARRAY)
			return CUDA_ERROR_NOT_SUPPORTED;
		const auto side = [](CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y,
		                     size_t pitch) {
			const char *base = type == CU_MEMORYTYPE_HOST ? static_cast<const char *>(host)
			                                              : static_cast<const char *>(pointer(device));
			return const_cast<char *>(base) + y * pitch + x;
		};
		const size_t fromPitch = what->srcPitch ? what->srcPitch : what->WidthInBytes;
		const size_t toPitch = what->dstPitch ? what->dstPitch : what->WidthInBytes;
		return as(emulated::copy(
		    {side(what->dstMemoryType, what->dstHost, what->dstDevice, what->dstXInBytes, what->dstY, toPitch), toPitch,
		     side(what->srcMemoryType, what->srcHost, what->srcDevice, what->srcXInBytes, what->srcY, fromPitch),
		     fromPitch, what->WidthInBytes, what->Height},
		    cudaMemcpyDefault, stream, async));
	}
	static CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *what) { return move2D(what, nullptr, false); }
	static CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *what) { return move2D(what, nullptr, false); }
	static CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *what, CUstream stream)
	{
		return move2D(what, stream, true);
	}

	static CUresult set(CUdeviceptr to, unsigned value, unsigned unit, size_t count, CUstream stream, bool async)
	{
		return as(emulated::fill({pointer(to), count * unit, value, unit, count, 1}, stream, async));
	}
	static CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count)
	{
		return set(to, value, 1, count, nullptr, false);
	}
	static CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count)
	{
		return set(to, value, 2, count, nullptr, false);
	}
	static CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count)
	{
		return set(to, value, 4, count, nullptr, false);
	}
	static CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
	{
		return set(to, value, 1, count, stream, true);
	}
	static CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream)
	{
		return set(to, value, 2, count, stream, true);
	}
	static CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
	{
		return set(to, value, 4, count, stream, true);
	}
	static CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height)
	{
		return as(emulated::fill({pointer(to), pitch, value, 1, width, height}, nullptr, false));
	}
	static CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height)
	{
		return as(emulated::fill({pointer(to), pitch, value, 4, width, height}, nullptr, false));
	}
	static CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height,
	                                  CUstream stream)
	{
		return as(emulated::fill({pointer(to), pitch, value, 1, width, height}, stream, true));
	}
	static CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height,
	                                   CUstream stream)
	{
		return as(emulated::fill({pointer(to), pitch, value, 4, width, height}, stream, true));
	}

	// ---- streams
	template <class Out, class Field>
	static CUresult streamFact(CUstream stream, Out *out, Field field)
	{
		emulated::StreamFacts facts;
		const cudaError_t error = emulated::streamFacts(stream, &facts);
		return error ? as(error) : give(out, field(facts));
	}
	static CUresult cuStreamCreate(CUstream *out, unsigned int flags)
	{
		return as(emulated::createStream(out, flags, 0));
	}
	static CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
	{
		return as(emulated::createStream(out, flags, priority));
	}
	static CUresult cuStreamDestroy_v2(CUstream stream) { return as(emulated::destroyStream(stream)); }
	static CUresult cuStreamSynchronize(CUstream stream) { return as(emulated::synchronize(stream)); }
	static CUresult cuStreamQuery(CUstream stream) { return as(emulated::queryStream(stream)); }
	static CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
	{
		return as(emulated::waitEvent(stream, event, flags));
	}
	static CUresult cuStreamGetCtx(CUstream stream, CUcontext *context)
	{
		return streamFact(stream, context, [](const auto &facts) { return handleOf(facts.context); });
	}
	static CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green)
	{
		if (green)
			*green = nullptr;
		return cuStreamGetCtx(stream, context);
	}
	static CUresult cuStreamGetDevice(CUstream stream, CUdevice *device)
	{
		return streamFact(stream, device, [](const auto &facts) { return facts.context->device; });
	}
	static CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags)
	{
		return streamFact(stream, flags, [](const auto &facts) { return facts.flags; });
	}
	static CUresult cuStreamGetPriority(CUstream stream, int *priority)
	{
		return streamFact(stream, priority, [](const auto &facts) { return facts.priority; });
	}
	static CUresult cuStreamGetId(CUstream stream, unsigned long long *id)
	{
		return streamFact(stream, id, [](const auto &facts) { return facts.id; });
	}
	static CUresult cuLaunchHostFunc(CUstream stream, CUhostFn callback, void *data)
	{
		return callback ? as(emulated::launchHost(stream, [=] { callback(data); })) : CUDA_ERROR_INVALID_VALUE;
	}
	static CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data, unsigned int)
	{
		return callback ? as(emulated::launchHost(stream, [=] { callback(stream, CUDA_SUCCESS, data); }))
		                : CUDA_ERROR_INVALID_VALUE;
	}

	// ---- events
	static CUresult cuEventCreate(CUevent *out, unsigned int flags) { return as(emulated::createEvent(out, flags)); }
	static CUresult cuEventDestroy_v2(CUevent event) { return as(emulated::destroyEvent(event)); }
	static CUresult cuEventRecord(CUevent event, CUstream stream)
	{
		return as(emulated::recordEvent(event, stream, 0));
	}
	static CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
	{
		return as(emulated::recordEvent(event, stream, flags));
	}
	static CUresult cuEventQuery(CUevent event) { return as(emulated::queryEvent(event)); }
	static CUresult cuEventSynchronize(CUevent event) { return as(emulated::synchronizeEvent(event)); }
	static CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
	{
		return as(emulated::elapsedTime(ms, start, end));
	}
	static CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end)
	{
		return as(emulated::elapsedTime(ms, start, end));
	}

	// ---- capture, graphs
	static cudaStreamCaptureMode modeOf(CUstreamCaptureMode mode) { return cudaStreamCaptureMode(mode); }
	static cudaStreamCaptureStatus *statusOf(CUstreamCaptureStatus *status)
	{
		return reinterpret_cast<cudaStreamCaptureStatus *>(status);
	}
	static unsigned long long *idOf(cuuint64_t *id) { return reinterpret_cast<unsigned long long *>(id); }
	static CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
	{
		return as(emulated::beginCapture(stream, modeOf(mode)));
	}
	static CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
	{
		return as(emulated::endCapture(stream, graph));
	}
	static CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
	{
		return as(emulated::exchangeMode(reinterpret_cast<cudaStreamCaptureMode *>(mode)));
	}
	static CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
	{
		return as(emulated::giveCapture(stream, statusOf(status), nullptr, nullptr, nullptr, nullptr, nullptr));
	}
	static CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
	                                          CUgraph *graph, const CUgraphNode **dependencies, size_t *count)
	{
		return as(emulated::giveCapture(stream, statusOf(status), idOf(id), graph, dependencies, nullptr, count));
	}
	static CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
	                                          CUgraph *graph, const CUgraphNode **dependencies,
	                                          const CUgraphEdgeData **edges, size_t *count)
	{
		return as(emulated::giveCapture(stream, statusOf(status), idOf(id), graph, dependencies,
		                                reinterpret_cast<const cudaGraphEdgeData **>(edges), count));
	}
	static CUresult cuStreamUpdateCaptureDependencies(CUstream stream, CUgraphNode *nodes, size_t count,
	                                                  unsigned int flags)
	{
		return as(emulated::updateCapture(stream, nodes, count, flags));
	}
	static CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream, CUgraphNode *nodes,
	                                                     const CUgraphEdgeData *edges, size_t count, unsigned int flags)
	{
		return edges ? CUDA_ERROR_NOT_SUPPORTED : as(emulated::updateCapture(stream, nodes, count, flags));
	}
	static CUresult cuGraphCreate(CUgraph *out, unsigned int) { return as(emulated::createGraph(out)); }
	static CUresult cuGraphDestroy(CUgraph graph) { return as(emulated::destroyGraph(graph)); }
	static CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
	{
		return as(emulated::graphNodes(graph, nodes, count));
	}
	static CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type)
	{
		return as(emulated::nodeType(node, reinterpret_cast<cudaGraphNodeType *>(type)));
	}
	static CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long)
	{
		return as(emulated::instantiate(out, graph));
	}
	static CUresult cuGraphUpload(CUgraphExec, CUstream) { return CUDA_SUCCESS; }
	static CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) { return as(emulated::launchGraph(exec, stream)); }
	static CUresult cuGraphExecDestroy(CUgraphExec exec) { return as(emulated::destroyExec(exec)); }
	static CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned int count,
	                                   unsigned int flags)
	{
		return as(emulated::createUserObject(out, data, destroy, count, flags));
	}
	static CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
	{
		return as(emulated::retainUserObject(object, count));
	}
	static CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
	{
		return as(emulated::releaseUserObject(object, count));
	}
	static CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
	{
		return as(emulated::graphRetain(graph, object, count, flags));
	}
	static CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
	{
		return as(emulated::graphRelease(graph, object, count));
	}

	// ---- modules, kernels: a CUfunction, a CUkernel and a module's function of one name are the same thing
	static Function *functionOf(const void *handle) { return static_cast<Function *>(const_cast<void *>(handle)); }
	static CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *, void **, unsigned int,
	                                  CUlibraryOption *, void **, unsigned int)
	{
		return code ? as(emulated::loadLibrary(reinterpret_cast<void **>(out))) : CUDA_ERROR_INVALID_VALUE;
	}
	static CUresult cuLibraryUnload(CUlibrary library) { return as(emulated::unloadLibrary(library)); }
	static CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
	{
		return as(emulated::libraryKernel(reinterpret_cast<void **>(out), library, name));
	}
	static CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library)
	{
		return give(out, reinterpret_cast<CUmodule>(library));
	}
	static CUresult loadModule(CUmodule *out, const void *image)
	{
		if (!image)
			return CUDA_ERROR_INVALID_VALUE;
		return inContext([=](auto &) { return as(emulated::loadLibrary(reinterpret_cast<void **>(out))); });
	}
	static CUresult cuModuleLoadData(CUmodule *out, const void *image) { return loadModule(out, image); }
	static CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image) { return loadModule(out, image); }
	static CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int, CUjit_option *, void **)
	{
		return loadModule(out, image);
	}
	static CUresult cuModuleUnload(CUmodule module) { return as(emulated::unloadLibrary(module)); }
	static CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
	{
		return as(emulated::libraryKernel(reinterpret_cast<void **>(out), module, name));
	}
	static CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
	{
		return emulated::isFunction(functionOf(kernel)) ? give(out, reinterpret_cast<CUfunction>(kernel))
		                                                : CUDA_ERROR_INVALID_HANDLE;
	}
	static CUresult nameOf(const char **name, const void *handle)
	{
		return emulated::isFunction(functionOf(handle)) ? give(name, functionOf(handle)->name.c_str())
		                                                : CUDA_ERROR_INVALID_HANDLE;
	}
	static CUresult cuKernelGetName(const char **name, CUkernel kernel) { return nameOf(name, kernel); }
	static CUresult cuFuncGetName(const char **name, CUfunction function) { return nameOf(name, function); }
	static CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice)
	{
		return as(emulated::functionAttribute(functionOf(kernel), attribute, value));
	}
	static CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice)
	{
		return as(emulated::setFunctionAttribute(functionOf(kernel), attribute, value));
	}
	static CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
	{
		return as(emulated::functionAttribute(functionOf(function), attribute, value));
	}
	static CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
	{
		return as(emulated::setFunctionAttribute(functionOf(function), attribute, value));
	}
	static CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
	static CUresult cuFuncLoad(CUfunction) { return CUDA_SUCCESS; }
	static CUresult cuLaunchKernel(CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
	                               unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int shared,
	                               CUstream stream, void **arguments, void **extra)
	{
		if (extra)
			return CUDA_ERROR_NOT_SUPPORTED;
		return as(emulated::launchKernel(functionOf(function),
		                                 {dim3(gridX, gridY, gridZ), dim3(blockX, blockY, blockZ), shared, stream},
		                                 arguments));
	}
	static CUresult cuLaunchKernelEx(const CUlaunchConfig *how, CUfunction function, void **arguments, void **extra)
	{
		if (!how)
			return CUDA_ERROR_INVALID_VALUE;
		return cuLaunchKernel(function, how->gridDimX, how->gridDimY, how->gridDimZ, how->blockDimX, how->blockDimY,
		                      how->blockDimZ, how->sharedMemBytes, how->hStream, arguments, extra);
	}
	static CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction, int blockSize, size_t shared)
	{
		return as(emulated::occupancy(blocks, blockSize, shared));
	}
	static CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction, int blockSize,
	                                                                     size_t shared, unsigned int)
	{
		return as(emulated::occupancy(blocks, blockSize, shared));
	}
};
