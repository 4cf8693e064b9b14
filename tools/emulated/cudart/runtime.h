// The emulated CUDA runtime: the exported functions without a row in forwards.txt. generate_front.py generates their
// wrappers. Any thread.
#pragma once

#include "front.h"

#include <cstring>
#include <cuda_runtime.h>

extern const emulated::ErrorName errorNames[];

// Kernels and variables that the program registered, and the driver that the runtime loads (runtime.cpp).
emulated::Function *registeredFunction(const void *symbol);
cudaError_t registeredVariable(const void *symbol, void **address, size_t *bytes);
cudaError_t driverEntry(const char *symbol, void **out, unsigned version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult *result);
void fillProperties(cudaDeviceProp &, int device);

struct Runtime {
	using Function = emulated::Function;

	template <class Work>
	static cudaError_t enter(emulated::Entry &entry, bool perThread, Work work)
	{
		cudaError_t error = entry.begin();
		if (!error) {
			const emulated::CallScope scope(false, perThread);
			error = work();
		}
		if (error)
			emulated::thread().last = error;
		return error;
	}
	static int refuse(emulated::Entry &entry)
	{
		cudaError_t error = entry.begin();
		if (!error) {
			emulated::missing(entry.name);
			error = cudaErrorNotSupported;
		}
		return emulated::thread().last = error;
	}
	// ---- versions
	static cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **out, unsigned long long flags,
	                                           cudaDriverEntryPointQueryResult *result)
	{
		return driverEntry(symbol, out, CUDART_VERSION, flags, result);
	}
	static cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **out, unsigned int version,
	                                                    unsigned long long flags,
	                                                    cudaDriverEntryPointQueryResult *result)
	{
		return driverEntry(symbol, out, version, flags, result);
	}

	static cudaError_t cudaProfilerStart() { return cudaSuccess; }
	static cudaError_t cudaProfilerStop() { return cudaSuccess; }

	// ---- devices
	static cudaError_t cudaGetDeviceCount(int *count)
	{
		if (const cudaError_t error = emulated::give(count, emulated::deviceCount()))
			return error;
		return emulated::initialize();
	}
	static cudaError_t cudaInitDevice(int device, unsigned int, unsigned int)
	{
		const cudaError_t error = emulated::checkDevice(device);
		if (!error)
			emulated::activate(*emulated::primaryContext(device));
		return error;
	}
	static cudaError_t cudaGetDevice(int *device)
	{
		const cudaError_t error = emulated::initialize();
		return error ? error : emulated::give(device, emulated::currentDevice());
	}
	static cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
	{
		if (const cudaError_t error = emulated::checkDevice(device))
			return error;
		if (!properties)
			return cudaErrorInvalidValue;
		fillProperties(*properties, device);
		return cudaSuccess;
	}
	static cudaError_t cudaChooseDevice(int *device, const cudaDeviceProp *)
	{
		const cudaError_t error = emulated::initialize();
		return error ? error : emulated::give(device, 0);
	}
	static cudaError_t cudaDeviceReset()
	{
		if (const cudaError_t error = emulated::initialize())
			return error;
		emulated::thread().last = cudaSuccess;
		return emulated::teardown(*emulated::primaryContext(emulated::currentDevice()));
	}
	static cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache *config)
	{
		return emulated::give(config, cudaFuncCachePreferNone);
	}
	static cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text)
	{
		unsigned domain = 0, bus = 0;
		if (!device || !text || sscanf(text, "%x:%x", &domain, &bus) != 2 || emulated::checkDevice(int(bus) - 1))
			return cudaErrorInvalidValue;
		*device = int(bus) - 1;
		return cudaSuccess;
	}
	static cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
	{
		return flags ? cudaErrorInvalidValue : emulated::changePeer(peer, true);
	}

	// ---- memory
	static cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer)
	{
		if (const cudaError_t error = emulated::ready())
			return error;
		if (!attributes)
			return cudaErrorInvalidValue;
		*attributes = {};
		attributes->device = -2;
		const auto one = emulated::findAllocation(pointer);
		if (!one) {
			attributes->hostPointer = emulated::isDevicePointer(pointer) ? nullptr : const_cast<void *>(pointer);
			return cudaSuccess;
		}
		const bool device = onDevice(one->kind), managed = one->kind == emulated::Allocation::Managed;
		attributes->type = device ? cudaMemoryTypeDevice : managed ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
		attributes->device = one->context->device;
		attributes->devicePointer = const_cast<void *>(pointer);
		attributes->hostPointer = device ? nullptr : const_cast<void *>(pointer);
		return cudaSuccess;
	}

	static cudaError_t copySymbol(const void *symbol, size_t offset, void *to, const void *from, size_t bytes,
	                              cudaMemcpyKind kind, cudaStream_t stream, bool async)
	{
		void *address = nullptr;
		size_t size = 0;
		if (const cudaError_t error = registeredVariable(symbol, &address, &size))
			return error;
		if (offset > size || bytes > size - offset)
			return cudaErrorInvalidValue;
		void *place = static_cast<char *>(address) + offset;
		return emulated::copyLine(to ? to : place, from ? from : place, bytes, kind, stream, async);
	}
	static cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
	                                      cudaMemcpyKind kind)
	{
		return copySymbol(symbol, offset, nullptr, from, bytes, kind, nullptr, false);
	}
	static cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset,
	                                        cudaMemcpyKind kind)
	{
		return copySymbol(symbol, offset, to, nullptr, bytes, kind, nullptr, false);
	}
	static cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset,
	                                           cudaMemcpyKind kind, cudaStream_t stream)
	{
		return copySymbol(symbol, offset, nullptr, from, bytes, kind, stream, true);
	}
	static cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset,
	                                             cudaMemcpyKind kind, cudaStream_t stream)
	{
		return copySymbol(symbol, offset, to, nullptr, bytes, kind, stream, true);
	}
	static cudaError_t cudaGetSymbolAddress(void **out, const void *symbol)
	{
		size_t size = 0;
		return out ? registeredVariable(symbol, out, &size) : cudaErrorInvalidValue;
	}
	static cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
	{
		void *address = nullptr;
		return size ? registeredVariable(symbol, &address, size) : cudaErrorInvalidValue;
	}

	// ---- kernels
	static cudaError_t launch(Function *function, dim3 grid, dim3 block, void **arguments, size_t shared,
	                          cudaStream_t stream)
	{
		return function ? emulated::launchKernel(function, {grid, block, shared, stream}, arguments)
		                : cudaErrorInvalidDeviceFunction;
	}
	static cudaError_t cudaLaunchKernel(const void *symbol, dim3 grid, dim3 block, void **arguments, size_t shared,
	                                    cudaStream_t stream)
	{
		return launch(registeredFunction(symbol), grid, block, arguments, shared, stream);
	}
	static cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *how, const void *symbol, void **arguments)
	{
		if (!how)
			return cudaErrorInvalidValue;
		return launch(registeredFunction(symbol), how->gridDim, how->blockDim, arguments, how->dynamicSmemBytes,
		              how->stream);
	}
	static cudaError_t __cudaGetKernel(cudaKernel_t *out, const void *symbol) { return cudaGetKernel(out, symbol); }
	static cudaError_t cudaGetKernel(cudaKernel_t *out, const void *symbol)
	{
		Function *function = registeredFunction(symbol);
		return function ? emulated::give(out, reinterpret_cast<cudaKernel_t>(function))
		                : cudaErrorInvalidDeviceFunction;
	}
	static cudaError_t cudaGetFuncBySymbol(cudaFunction_t *out, const void *symbol)
	{
		Function *function = registeredFunction(symbol);
		return function ? emulated::give(out, reinterpret_cast<cudaFunction_t>(function))
		                : cudaErrorInvalidDeviceFunction;
	}
	static cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
	                                      cudaStream_t stream)
	{
		return launch(emulated::core(kernel), grid, block, arguments, shared, stream);
	}
	static cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *symbol)
	{
		Function *function = registeredFunction(symbol);
		if (!function)
			return cudaErrorInvalidDeviceFunction;
		if (!attributes)
			return cudaErrorInvalidValue;
		*attributes = {};
		attributes->maxThreadsPerBlock = 1024;
		attributes->numRegs = 32;
		attributes->ptxVersion = attributes->binaryVersion = 90;
		attributes->maxDynamicSharedSizeBytes = function->dynamicShared;
		return cudaSuccess;
	}
	static cudaError_t cudaFuncSetAttribute(const void *symbol, cudaFuncAttribute attribute, int value)
	{
		Function *function = registeredFunction(symbol);
		return function ? emulated::setFunctionAttribute(function, attribute, value) : cudaErrorInvalidDeviceFunction;
	}
	static cudaError_t cudaFuncGetName(const char **name, const void *symbol)
	{
		Function *function = registeredFunction(symbol);
		return function ? emulated::give(name, function->name.c_str()) : cudaErrorInvalidDeviceFunction;
	}
};
