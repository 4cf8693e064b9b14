// The emulated CUDA runtime: what its exported functions do; generate_front.py wraps them. Any thread.
#pragma once

#include "front.h"

#include <cstring>
#include <cuda_runtime.h>

extern const emulated::ErrorName errorNames[];

// Kernels and variables that the program registered, and the driver beside us (runtime.cpp).
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
	static cudaError_t ready()
	{
		emulated::Context *context;
		return emulated::requireContext(&context);
	}
	static cudaError_t checkDevice(int device)
	{
		if (const cudaError_t error = emulated::initialize())
			return error;
		return emulated::primaryContext(device) ? cudaSuccess : cudaErrorInvalidDevice;
	}
	static emulated::Pool *poolOf(cudaMemPool_t pool) { return reinterpret_cast<emulated::Pool *>(pool); }
	static Function *kernelOf(cudaKernel_t kernel) { return reinterpret_cast<Function *>(kernel); }
	static emulated::Rectangle line(void *to, const void *from, size_t bytes)
	{
		return {to, bytes, from, bytes, bytes, 1};
	}

	// ---- errors, versions
	static cudaError_t cudaDriverGetVersion(int *version) { return emulated::give(version, CUDART_VERSION); }
	static cudaError_t cudaRuntimeGetVersion(int *version) { return emulated::give(version, CUDART_VERSION); }
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
	static cudaError_t cudaSetDevice(int device) { return emulated::setDevice(device); }
	static cudaError_t cudaInitDevice(int device, unsigned int, unsigned int)
	{
		const cudaError_t error = checkDevice(device);
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
		if (const cudaError_t error = checkDevice(device))
			return error;
		if (!properties)
			return cudaErrorInvalidValue;
		fillProperties(*properties, device);
		return cudaSuccess;
	}
	static cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
	{
		const cudaError_t error = emulated::initialize();
		return error ? error : emulated::deviceAttribute(value, attribute, device);
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
	static cudaError_t cudaDeviceSynchronize() { return emulated::synchronizeContext(); }
	static cudaError_t cudaGetDeviceFlags(unsigned int *flags) { return emulated::give(flags, 0); }
	static cudaError_t cudaSetDeviceFlags(unsigned int) { return emulated::initialize(); }
	static cudaError_t cudaSetValidDevices(int *, int) { return emulated::initialize(); }
	static cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return ready(); }
	static cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return ready(); }
	static cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache *config)
	{
		return emulated::give(config, cudaFuncCachePreferNone);
	}
	static cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
	{
		if (least)
			*least = 0;
		if (greatest)
			*greatest = -5;
		return ready();
	}
	static cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
	{
		if (const cudaError_t error = checkDevice(device))
			return error;
		if (!text || length < 13)
			return cudaErrorInvalidValue;
		snprintf(text, size_t(length), "0000:%02x:00.0", device + 1);
		return cudaSuccess;
	}
	static cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *text)
	{
		unsigned domain = 0, bus = 0;
		if (!device || !text || sscanf(text, "%x:%x", &domain, &bus) != 2 || checkDevice(int(bus) - 1))
			return cudaErrorInvalidValue;
		*device = int(bus) - 1;
		return cudaSuccess;
	}
	static cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
	{
		if (checkDevice(device) || checkDevice(peer))
			return cudaErrorInvalidDevice;
		return emulated::give(can, device != peer);
	}
	static cudaError_t changePeer(int peer, bool enable)
	{
		emulated::Context *context = nullptr;
		if (const cudaError_t error = emulated::requireContext(&context))
			return error;
		if (checkDevice(peer) || peer == context->device)
			return cudaErrorInvalidDevice;
		const unsigned bit = 1u << peer,
		               before = enable ? context->peers.fetch_or(bit) : context->peers.fetch_and(~bit);
		if (bool(before & bit) == enable)
			return enable ? cudaErrorPeerAccessAlreadyEnabled : cudaErrorPeerAccessNotEnabled;
		return cudaSuccess;
	}
	static cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags)
	{
		return flags ? cudaErrorInvalidValue : changePeer(peer, true);
	}
	static cudaError_t cudaDeviceDisablePeerAccess(int peer) { return changePeer(peer, false); }

	// ---- memory
	static cudaError_t take(void **out, size_t bytes, emulated::Allocation::Kind kind, unsigned flags)
	{
		emulated::Context *context = nullptr;
		if (const cudaError_t error = emulated::requireContext(&context))
			return error;
		if (!out)
			return cudaErrorInvalidValue;
		if (const cudaError_t error = emulated::unsafeCall())
			return error;
		*out = nullptr;
		return bytes ? emulated::allocate(*context, bytes, kind, nullptr, true, flags, out) : cudaSuccess;
	}
	static cudaError_t cudaMalloc(void **out, size_t bytes)
	{
		return take(out, bytes, emulated::Allocation::Device, 0);
	}
	static cudaError_t cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height)
	{
		if (!pitch)
			return cudaErrorInvalidValue;
		*pitch = (width + 511) / 512 * 512;
		return take(out, *pitch * height, emulated::Allocation::Device, 0);
	}
	static cudaError_t cudaMallocManaged(void **out, size_t bytes, unsigned int flags)
	{
		if (bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
			return cudaErrorInvalidValue;
		return take(out, bytes, emulated::Allocation::Managed, flags);
	}
	static cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned int flags)
	{
		if (flags & ~unsigned(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined))
			return cudaErrorInvalidValue;
		return take(out, bytes, emulated::Allocation::Pinned, flags);
	}
	static cudaError_t cudaMallocHost(void **out, size_t bytes)
	{
		return take(out, bytes, emulated::Allocation::Pinned, 0);
	}
	static cudaError_t cudaFree(void *pointer) { return emulated::freeNow(pointer); }
	static cudaError_t cudaFreeHost(void *pointer) { return emulated::freeHostNow(pointer); }
	static cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned int flags)
	{
		emulated::Context *context = nullptr;
		if (const cudaError_t error = emulated::requireContext(&context))
			return error;
		if (const cudaError_t error = emulated::unsafeCall())
			return error;
		return emulated::registerHost(*context, pointer, bytes, flags);
	}
	static cudaError_t cudaHostUnregister(void *pointer) { return emulated::unregisterHost(pointer); }
	static cudaError_t cudaHostGetDevicePointer(void **out, void *pointer, unsigned int flags)
	{
		const auto one = emulated::findAllocation(pointer);
		if (flags || !one || one->kind < emulated::Allocation::Pinned)
			return cudaErrorInvalidValue;
		return emulated::give(out, pointer);
	}
	static cudaError_t cudaHostGetFlags(unsigned int *flags, void *pointer)
	{
		const auto one = emulated::findAllocation(pointer);
		if (!one || one->kind != emulated::Allocation::Pinned)
			return cudaErrorInvalidValue;
		return emulated::give(flags, one->flags);
	}
	static cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
	{
		if (const cudaError_t error = ready())
			return error;
		if (!free || !total)
			return cudaErrorInvalidValue;
		emulated::memoryInfo(emulated::currentDevice(), free, total);
		return cudaSuccess;
	}
	static cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer)
	{
		if (const cudaError_t error = ready())
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
		using Kind = emulated::Allocation;
		const bool device = one->kind == Kind::Device || one->kind == Kind::Graph;
		attributes->type = device                       ? cudaMemoryTypeDevice
		                   : one->kind == Kind::Managed ? cudaMemoryTypeManaged
		                                                : cudaMemoryTypeHost;
		attributes->device = one->context->device;
		attributes->devicePointer = const_cast<void *>(pointer);
		attributes->hostPointer = device ? nullptr : const_cast<void *>(pointer);
		return cudaSuccess;
	}
	static cudaError_t cudaMemAdvise(const void *, size_t, cudaMemoryAdvise, cudaMemLocation) { return ready(); }
	static cudaError_t cudaMemPrefetchAsync(const void *, size_t, cudaMemLocation, unsigned int, cudaStream_t stream)
	{
		return streamThere(stream);
	}
	static cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *, size_t, unsigned int)
	{
		return streamThere(stream);
	}

	// ---- stream-ordered memory
	static cudaError_t cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream)
	{
		return emulated::allocateAsync(out, bytes, nullptr, stream);
	}
	static cudaError_t cudaMallocFromPoolAsync(void **out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream)
	{
		if (!emulated::isPool(poolOf(pool)))
			return cudaErrorInvalidValue;
		return emulated::allocateAsync(out, bytes, poolOf(pool), stream);
	}
	static cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
	{
		return emulated::freeAsync(pointer, stream);
	}
	static cudaError_t cudaMemPoolCreate(cudaMemPool_t *out, const cudaMemPoolProps *properties)
	{
		if (!out || !properties || properties->location.type != cudaMemLocationTypeDevice)
			return cudaErrorInvalidValue;
		if (const cudaError_t error = checkDevice(properties->location.id))
			return error;
		if (const cudaError_t error = emulated::unsafeCall())
			return error;
		return emulated::give(
		    out, reinterpret_cast<cudaMemPool_t>(emulated::createPool(properties->location.id, properties->maxSize)));
	}
	static cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) { return emulated::destroyPool(poolOf(pool)); }
	static cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
	{
		if (!emulated::isPool(poolOf(pool)))
			return cudaErrorInvalidValue;
		emulated::trimPool(*poolOf(pool), keep);
		return cudaSuccess;
	}
	static cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value)
	{
		return emulated::poolAttribute(poolOf(pool), attribute, value, true);
	}
	static cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void *value)
	{
		return emulated::poolAttribute(poolOf(pool), attribute, value, false);
	}
	static cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc *, size_t)
	{
		return emulated::isPool(poolOf(pool)) ? cudaSuccess : cudaErrorInvalidValue;
	}
	static cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
	{
		const cudaError_t error = checkDevice(device);
		return error ? error
		             : emulated::give(pool,
		                              reinterpret_cast<cudaMemPool_t>(emulated::primaryContext(device)->defaultPool));
	}
	static cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
	{
		const cudaError_t error = checkDevice(device);
		return error ? error
		             : emulated::give(pool, reinterpret_cast<cudaMemPool_t>(emulated::primaryContext(device)->pool));
	}
	static cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
	{
		if (const cudaError_t error = checkDevice(device))
			return error;
		if (!emulated::isPool(poolOf(pool)))
			return cudaErrorInvalidValue;
		emulated::primaryContext(device)->pool = poolOf(pool);
		return cudaSuccess;
	}

	// ---- copies
	static cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
	{
		return emulated::copy(line(to, from, bytes), kind, nullptr, false);
	}
	static cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
	                                   cudaStream_t stream)
	{
		return emulated::copy(line(to, from, bytes), kind, stream, true);
	}
	static cudaError_t cudaMemcpyPeer(void *to, int toDevice, const void *from, int fromDevice, size_t bytes)
	{
		if (checkDevice(toDevice) || checkDevice(fromDevice))
			return cudaErrorInvalidDevice;
		// In order with everything on both devices.
		for (const int device : {toDevice, fromDevice})
			if (const cudaError_t error = emulated::drainDevice(device))
				return error;
		return emulated::copy(line(to, from, bytes), cudaMemcpyDeviceToDevice, nullptr, false);
	}
	static cudaError_t cudaMemcpyPeerAsync(void *to, int toDevice, const void *from, int fromDevice, size_t bytes,
	                                       cudaStream_t stream)
	{
		if (checkDevice(toDevice) || checkDevice(fromDevice))
			return cudaErrorInvalidDevice;
		return emulated::copy(line(to, from, bytes), cudaMemcpyDeviceToDevice, stream, true);
	}
	static cudaError_t cudaMemcpy2D(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
	                                size_t height, cudaMemcpyKind kind)
	{
		return emulated::copy({to, toPitch, from, fromPitch, width, height}, kind, nullptr, false);
	}
	static cudaError_t cudaMemcpy2DAsync(void *to, size_t toPitch, const void *from, size_t fromPitch, size_t width,
	                                     size_t height, cudaMemcpyKind kind, cudaStream_t stream)
	{
		return emulated::copy({to, toPitch, from, fromPitch, width, height}, kind, stream, true);
	}
	static cudaError_t cudaMemset(void *to, int value, size_t bytes)
	{
		return emulated::fill({to, bytes, unsigned(value), 1, bytes, 1}, nullptr, false);
	}
	static cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
	{
		return emulated::fill({to, bytes, unsigned(value), 1, bytes, 1}, stream, true);
	}
	static cudaError_t cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height)
	{
		return emulated::fill({to, pitch, unsigned(value), 1, width, height}, nullptr, false);
	}
	static cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height,
	                                     cudaStream_t stream)
	{
		return emulated::fill({to, pitch, unsigned(value), 1, width, height}, stream, true);
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
		return emulated::copy(line(to ? to : place, from ? from : place, bytes), kind, stream, async);
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

	// ---- streams
	static cudaError_t streamThere(cudaStream_t stream)
	{
		emulated::StreamFacts facts;
		return emulated::streamFacts(stream, &facts);
	}
	template <class Out, class Field>
	static cudaError_t streamFact(cudaStream_t stream, Out *out, Field field)
	{
		emulated::StreamFacts facts;
		const cudaError_t error = emulated::streamFacts(stream, &facts);
		return error ? error : emulated::give(out, field(facts));
	}
	static cudaError_t cudaStreamCreate(cudaStream_t *out) { return emulated::createStream(out, cudaStreamDefault, 0); }
	static cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned int flags)
	{
		return emulated::createStream(out, flags, 0);
	}
	static cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned int flags, int priority)
	{
		return emulated::createStream(out, flags, priority);
	}
	static cudaError_t cudaStreamDestroy(cudaStream_t stream) { return emulated::destroyStream(stream); }
	static cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return emulated::synchronize(stream); }
	static cudaError_t cudaStreamQuery(cudaStream_t stream) { return emulated::queryStream(stream); }
	static cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
	{
		return emulated::waitEvent(stream, event, flags);
	}
	static cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
	{
		return streamFact(stream, flags, [](const auto &facts) { return facts.flags; });
	}
	static cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
	{
		return streamFact(stream, priority, [](const auto &facts) { return facts.priority; });
	}
	static cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
	{
		return streamFact(stream, id, [](const auto &facts) { return facts.id; });
	}
	static cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device)
	{
		return streamFact(stream, device, [](const auto &facts) { return facts.context->device; });
	}
	static cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t callback, void *data)
	{
		if (!callback)
			return cudaErrorInvalidValue;
		return emulated::launchHost(stream, [=] { callback(data); });
	}
	static cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data,
	                                         unsigned int flags)
	{
		if (!callback || flags)
			return cudaErrorInvalidValue;
		return emulated::launchHost(stream, [=] { callback(stream, cudaSuccess, data); });
	}

	// ---- events
	static cudaError_t cudaEventCreate(cudaEvent_t *out) { return emulated::createEvent(out, 0); }
	static cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned int flags)
	{
		return emulated::createEvent(out, flags);
	}
	static cudaError_t cudaEventDestroy(cudaEvent_t event) { return emulated::destroyEvent(event); }
	static cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
	{
		return emulated::recordEvent(event, stream, 0);
	}
	static cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
	{
		return emulated::recordEvent(event, stream, flags);
	}
	static cudaError_t cudaEventQuery(cudaEvent_t event) { return emulated::queryEvent(event); }
	static cudaError_t cudaEventSynchronize(cudaEvent_t event) { return emulated::synchronizeEvent(event); }
	static cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
	{
		return emulated::elapsedTime(ms, start, end);
	}

	// ---- capture, graphs
	static cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
	{
		return emulated::beginCapture(stream, mode);
	}
	static cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
	{
		return emulated::endCapture(stream, graph);
	}
	static cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
	{
		return emulated::exchangeMode(mode);
	}
	static cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
	{
		emulated::CaptureFacts facts;
		const cudaError_t error = emulated::captureFacts(stream, &facts);
		return error ? error : emulated::give(status, facts.status);
	}
	static cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status,
	                                            unsigned long long *id, cudaGraph_t *graph,
	                                            const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges,
	                                            size_t *count)
	{
		return emulated::giveCapture(stream, status, id, graph, dependencies, edges, count);
	}
	static cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *nodes,
	                                                       const cudaGraphEdgeData *edges, size_t count,
	                                                       unsigned int flags)
	{
		return edges ? cudaErrorNotSupported : emulated::updateCapture(stream, nodes, count, flags);
	}
	static cudaError_t cudaGraphCreate(cudaGraph_t *out, unsigned int flags)
	{
		return flags ? cudaErrorInvalidValue : emulated::createGraph(out);
	}
	static cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return emulated::destroyGraph(graph); }
	static cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
	{
		return emulated::graphNodes(graph, nodes, count);
	}
	static cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType *type)
	{
		return emulated::nodeType(node, type);
	}
	static cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
	{
		return emulated::instantiate(out, graph);
	}
	static cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
	{
		return emulated::instantiate(out, graph);
	}
	static cudaError_t cudaGraphExecUpdate(cudaGraphExec_t, cudaGraph_t, cudaGraphExecUpdateResultInfo *info)
	{
		if (info) {
			*info = {};
			info->result = cudaGraphExecUpdateErrorNotSupported;
		}
		return cudaErrorGraphExecUpdateFailure;
	}
	static cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t stream) { return streamThere(stream); }
	static cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
	{
		return emulated::launchGraph(exec, stream);
	}
	static cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { return emulated::destroyExec(exec); }
	static cudaError_t cudaUserObjectCreate(cudaUserObject_t *out, void *pointer, cudaHostFn_t destroy,
	                                        unsigned int count, unsigned int flags)
	{
		return emulated::createUserObject(out, pointer, destroy, count, flags);
	}
	static cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
	{
		return emulated::retainUserObject(object, count);
	}
	static cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
	{
		return emulated::releaseUserObject(object, count);
	}
	static cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
	                                             unsigned int flags)
	{
		return emulated::graphRetain(graph, object, count, flags);
	}
	static cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count)
	{
		return emulated::graphRelease(graph, object, count);
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
		return launch(kernelOf(kernel), grid, block, arguments, shared, stream);
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
	static cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int)
	{
		return emulated::setFunctionAttribute(kernelOf(kernel), attribute, value);
	}
	static cudaError_t cudaFuncSetCacheConfig(const void *, cudaFuncCache) { return ready(); }
	static cudaError_t cudaFuncGetName(const char **name, const void *symbol)
	{
		Function *function = registeredFunction(symbol);
		return function ? emulated::give(name, function->name.c_str()) : cudaErrorInvalidDeviceFunction;
	}
	static cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int blockSize,
	                                                                 size_t shared)
	{
		return emulated::occupancy(blocks, blockSize, shared);
	}
	static cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *, int blockSize,
	                                                                          size_t shared, unsigned int)
	{
		return emulated::occupancy(blocks, blockSize, shared);
	}
	static cudaError_t cudaLibraryLoadData(cudaLibrary_t *out, const void *code, cudaJitOption *, void **, unsigned int,
	                                       cudaLibraryOption *, void **, unsigned int)
	{
		return code ? emulated::loadLibrary(reinterpret_cast<void **>(out)) : cudaErrorInvalidValue;
	}
	static cudaError_t cudaLibraryUnload(cudaLibrary_t library) { return emulated::unloadLibrary(library); }
	static cudaError_t cudaLibraryGetKernel(cudaKernel_t *out, cudaLibrary_t library, const char *name)
	{
		return emulated::libraryKernel(reinterpret_cast<void **>(out), library, name);
	}
};
