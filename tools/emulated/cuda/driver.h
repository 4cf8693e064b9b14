// The emulated driver API: the exported functions without a row in forwards.txt. generate_front.py generates their
// wrappers. Any thread.
#pragma once

#define __CUDA_API_VERSION_INTERNAL // keeps exported names: otherwise a macro replaces cuMemAlloc by cuMemAlloc_v2
#include <cuda.h>

#include "front.h"

#include <cstring>

extern const emulated::ErrorName errorNames[];

// The symbol of a driver function, by its name and the CUDA version that introduced it.
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

namespace emulated {

inline cudaStreamCaptureMode core(CUstreamCaptureMode mode)
{
	return cudaStreamCaptureMode(mode);
}
CORE_TYPE(CUstreamCaptureMode, cudaStreamCaptureMode)
CORE_TYPE(CUstreamCaptureStatus, cudaStreamCaptureStatus)
CORE_TYPE(CUgraphNodeType, cudaGraphNodeType)
CORE_TYPE(const CUgraphEdgeData *, const cudaGraphEdgeData *)
CORE_TYPE(const CUgraphEdgeData, const cudaGraphEdgeData)
CORE_TYPE(CUgraphEdgeData, cudaGraphEdgeData)
CORE_TYPE(CUgraphExecUpdateResultInfo, cudaGraphExecUpdateResultInfo)
CORE_TYPE(const CUmemAccessDesc, const cudaMemAccessDesc)

} // namespace emulated

struct Driver {
	using Allocation = emulated::Allocation;
	using Function = emulated::Function;

	// Error numbers are those of the runtime, except a few that the driver does not have.
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
	static CUresult as(CUresult result) { return result; }
	template <class Work>
	static CUresult enter(emulated::Entry &entry, bool perThread, Work work)
	{
		if (const cudaError_t error = entry.begin())
			return as(error);
		if (!emulated::isInitialized())
			return CUDA_ERROR_NOT_INITIALIZED;
		const emulated::CallScope scope(true, perThread);
		return as(work());
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
	static emulated::Context *contextOf(CUcontext context) { return reinterpret_cast<emulated::Context *>(context); }
	static CUcontext handleOf(emulated::Context *context) { return reinterpret_cast<CUcontext>(context); }
	static emulated::Context *deviceContext(CUdevice device) { return emulated::primaryContext(device); }
	static std::vector<emulated::Context *> &stack() { return emulated::thread().contexts; }

	static CUresult cuProfilerStart() { return CUDA_SUCCESS; }
	static CUresult cuProfilerStop() { return CUDA_SUCCESS; }

	// ---- devices
	static CUresult cuDeviceGet(CUdevice *out, int ordinal)
	{
		return deviceContext(ordinal) ? give(out, ordinal) : CUDA_ERROR_INVALID_DEVICE;
	}
	static CUresult cuDeviceGetCount(int *count) { return give(count, emulated::deviceCount()); }
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
	static CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
	{
		const cudaError_t error = emulated::deviceAttribute(major, cudaDevAttrComputeCapabilityMajor, device);
		return as(error ? error : emulated::deviceAttribute(minor, cudaDevAttrComputeCapabilityMinor, device));
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
	// Runs `work` on the current context; fails without one or if it is broken.
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
	static CUresult cuCtxGetApiVersion(CUcontext, unsigned int *version) { return give(version, CUDA_VERSION); }
	static CUresult peer(CUcontext handle, bool enable)
	{
		if (!emulated::isContext(contextOf(handle)))
			return CUDA_ERROR_INVALID_CONTEXT;
		return as(emulated::changePeer(contextOf(handle)->device, enable));
	}
	static CUresult cuCtxEnablePeerAccess(CUcontext handle, unsigned int flags)
	{
		return flags ? CUDA_ERROR_INVALID_VALUE : peer(handle, true);
	}
	static CUresult cuCtxDisablePeerAccess(CUcontext handle) { return peer(handle, false); }

	// ---- memory
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

	static bool isPhysical(const CUmemAllocationProp *wanted)
	{
		return wanted && wanted->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
		       wanted->location.type == CU_MEM_LOCATION_TYPE_DEVICE && deviceContext(wanted->location.id);
	}
	static CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *wanted,
	                                              CUmemAllocationGranularity_flags)
	{
		return isPhysical(wanted) ? give(bytes, emulated::mappingGrain) : CUDA_ERROR_INVALID_VALUE;
	}
	static CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *wanted,
	                            unsigned long long flags)
	{
		static_assert(sizeof *handle == sizeof(void *));
		if (!handle || flags || !isPhysical(wanted))
			return CUDA_ERROR_INVALID_VALUE;
		return as(emulated::createPhysical(reinterpret_cast<const void **>(handle), bytes, wanted->location.id));
	}

	// Writes an attribute of a pointer; returns false if the attribute does not apply.
	static bool pointerFact(void *out, CUpointer_attribute attribute, CUdeviceptr address)
	{
		const auto one = emulated::findAllocation(pointer(address));
		const auto put = [out](auto value) {
			memcpy(out, &value, sizeof value);
			return true;
		};
		if (!one)
			return false;
		const bool device = onDevice(one->kind);
		switch (attribute) {
		case CU_POINTER_ATTRIBUTE_CONTEXT:
			return put(one->pool || one->physical ? nullptr : handleOf(one->context));
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

	// ---- copies
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
	static CUresult cuStreamGetCtx_v2(CUstream stream, CUcontext *context, CUgreenCtx *green)
	{
		if (green)
			*green = nullptr;
		return as(emulated::streamFact(stream, context, &emulated::StreamFacts::context));
	}

	// ---- kernels
	static CUresult cuLibraryGetModule(CUmodule *out, CUlibrary library)
	{
		return give(out, reinterpret_cast<CUmodule>(library));
	}
	static CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
	{
		emulated::Function *found = nullptr;
		const cudaError_t error = emulated::functionOfContext(&found, emulated::core(kernel));
		return error ? as(error) : give(out, reinterpret_cast<CUfunction>(found));
	}
	static CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
	{
		return as(emulated::kernelParameter(emulated::core(kernel), index, offset, size));
	}
	static CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *size)
	{
		return as(emulated::kernelParameter(emulated::core(function), index, offset, size));
	}
	static CUresult cuLaunchKernel(CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
	                               unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int shared,
	                               CUstream stream, void **arguments, void **extra)
	{
		if (extra)
			return CUDA_ERROR_NOT_SUPPORTED;
		return as(emulated::launchKernel(emulated::core(function),
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
};
