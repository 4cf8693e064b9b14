// A CUDA driver for tests. It counts everything that is registered, allocated and owned by graphs; each function can be
// made to fail. One thread.
#pragma once

#include "src/cuda/driver.h"

#define __CUDA_API_VERSION_INTERNAL // exported names
#include <cuda.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

struct CUuserObject_st {
	void *pointer;
	void (*destroy)(void *);
	unsigned references;
};
struct CUgraphNode_st {
	std::vector<CUgraphNode_st *> after;
};
struct CUgraph_st {
	std::vector<CUuserObject_st *> owned;
	std::deque<CUgraphNode_st> nodes;
};

namespace fake_driver {

using autoamp::cuda::Address;
using autoamp::cuda::Result;
using autoamp::cuda::Stream;

struct Device {
	std::map<std::string, Result> failing; // function -> what it returns
	std::map<std::string, int> calls;
	std::map<std::string, std::function<void()>> meanwhile; // function -> action of another thread, once
	bool isDestroying = false;                              // a user object: no call may be made

	// The pool, and memory outside of it.
	bool hasPools = true;
	int pools = 0, poolDevice = -1, allocationType = 0;
	const void *image = nullptr; // the last one that was loaded
	std::map<int, uint64_t> poolAttributes;
	size_t used = 0, reserved = 0, free = size_t{1} << 40;
	size_t trimmedTo = 1;
	std::map<Address, size_t> inPool, live;
	Address next = 0x10000;
	Stream stream = nullptr; // stream of the last call with one

	CUgraph_st *graph = nullptr; // being captured
	unsigned long long capture = 1;
	std::vector<CUgraphNode_st *> frontier;
	CUgraphNode_st *partial = nullptr; // not a full dependency on its predecessors
	unsigned objectFlags = 0, retainFlags = 0;
	int objects = 0;

	std::set<void *> registered;
	unsigned registerFlags = 0;

	CUctx_st *context = nullptr, *primary = nullptr, *contextOfStream = nullptr; // null: the current one
	unsigned long long contextId = 41, streamId = 7;
	int isPrimaryActive = 0, retained = 0, ordinal = 0, captureMode = 0;
};
inline Device device;

inline Result called(const char *name)
{
	if (device.isDestroying)
		throw std::string("called in a destructor: ") + name;
	device.calls[name]++;
	if (const auto hook = device.meanwhile.extract(name))
		hook.mapped()();
	const auto found = device.failing.find(name);
	return found == device.failing.end() ? 0 : found->second;
}

inline void dropped(CUuserObject_st *object, unsigned count)
{
	if ((object->references -= count))
		return;
	device.isDestroying = true;
	object->destroy(object->pointer);
	device.isDestroying = false;
	device.objects--;
	delete object;
}

// Captures one node.
inline CUgraphNode_st *enqueue()
{
	CUgraphNode_st &node = device.graph->nodes.emplace_back(CUgraphNode_st{device.frontier});
	device.frontier = {&node};
	return &node;
}

// The actions of the runtime when the last reference to a graph is released.
inline void destroyGraph(CUgraph_st &graph)
{
	for (CUuserObject_st *object : graph.owned)
		dropped(object, 1);
	graph.owned.clear();
}

#define CALLED(name)                                                                                                   \
	if (const Result result = called(name))                                                                            \
	return result

inline autoamp::cuda::Driver makeDriver()
{
	autoamp::cuda::Driver driver = {};
	driver.cuDeviceGetAttribute = [](int *value, int attribute, int) -> Result {
		CALLED("cuDeviceGetAttribute");
		if (attribute == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) {
			*value = device.hasPools;
			return 0;
		}
		*value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
		         : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 3
		         : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT     ? 77
		                                                                     : -1;
		return 0;
	};
	driver.cuDeviceGetName = [](char *name, int size, int ordinal) -> Result {
		CALLED("cuDeviceGetName");
		std::snprintf(name, static_cast<size_t>(size), "number %d", ordinal);
		return 0;
	};
	driver.cuCtxGetCurrent = [](CUctx_st **context) -> Result {
		CALLED("cuCtxGetCurrent");
		*context = device.context;
		return 0;
	};
	driver.cuCtxGetId = [](CUctx_st *context, unsigned long long *id) -> Result {
		CALLED("cuCtxGetId");
		if (!context && !device.context)
			return CUDA_ERROR_INVALID_CONTEXT;
		*id = device.contextId;
		return 0;
	};
	driver.cuStreamGetId = [](Stream, unsigned long long *id) -> Result {
		CALLED("cuStreamGetId");
		*id = device.streamId;
		return 0;
	};
	driver.cuStreamGetCtx = [](Stream, CUctx_st **context) -> Result {
		CALLED("cuStreamGetCtx");
		*context = device.contextOfStream ? device.contextOfStream : device.context;
		return 0;
	};
	driver.cuCtxGetDevice = [](int *ordinal) -> Result {
		CALLED("cuCtxGetDevice");
		if (!device.context)
			return CUDA_ERROR_INVALID_CONTEXT;
		*ordinal = device.ordinal;
		return 0;
	};
	driver.cuCtxSetCurrent = [](CUctx_st *context) -> Result {
		CALLED("cuCtxSetCurrent");
		device.context = context;
		return 0;
	};
	driver.cuDevicePrimaryCtxGetState = [](int, unsigned *, int *isActive) -> Result {
		CALLED("cuDevicePrimaryCtxGetState");
		*isActive = device.isPrimaryActive;
		return 0;
	};
	driver.cuDevicePrimaryCtxRetain = [](CUctx_st **context, int) -> Result {
		CALLED("cuDevicePrimaryCtxRetain");
		device.retained++;
		*context = device.primary;
		return 0;
	};
	driver.cuDevicePrimaryCtxRelease_v2 = [](int) -> Result {
		CALLED("cuDevicePrimaryCtxRelease_v2");
		device.retained--;
		return 0;
	};
	driver.cuThreadExchangeStreamCaptureMode = [](int *mode) -> Result {
		CALLED("cuThreadExchangeStreamCaptureMode");
		std::swap(*mode, device.captureMode);
		return 0;
	};
	driver.cuStreamGetCaptureInfo_v2 = [](Stream, int *status, unsigned long long *id, CUgraph_st **graph,
	                                      CUgraphNode_st *const **nodes, size_t *count) -> Result {
		CALLED("cuStreamGetCaptureInfo_v2");
		if (nodes && device.partial && device.partial == device.frontier[0])
			return CUDA_ERROR_LOSSY_QUERY;
		*status = device.graph ? 1 : 0;
		*id = device.capture;
		*graph = device.graph;
		if (nodes)
			*nodes = device.frontier.data();
		if (count)
			*count = device.frontier.size();
		return 0;
	};
	driver.cuStreamUpdateCaptureDependencies = [](Stream, CUgraphNode_st **nodes, size_t count,
	                                              unsigned flags) -> Result {
		CALLED("cuStreamUpdateCaptureDependencies");
		if (flags != CU_STREAM_ADD_CAPTURE_DEPENDENCIES)
			return CUDA_ERROR_INVALID_VALUE;
		for (size_t i = 0; i < count; i++)
			if (std::count(device.frontier.begin(), device.frontier.end(), nodes[i]))
				return CUDA_ERROR_INVALID_VALUE; // not documented: it may be an error to add one twice
		device.frontier.insert(device.frontier.end(), nodes, nodes + count);
		return 0;
	};
	driver.cuGraphNodeGetDependencies = [](CUgraphNode_st *node, CUgraphNode_st **after, size_t *count) -> Result {
		CALLED("cuGraphNodeGetDependencies");
		if (node == device.partial)
			return CUDA_ERROR_LOSSY_QUERY;
		for (size_t i = 0; i < *count; i++)
			after[i] = i < node->after.size() ? node->after[i] : nullptr;
		*count = std::min(*count, node->after.size());
		return 0;
	};
	driver.cuMemGetInfo_v2 = [](size_t *free, size_t *total) -> Result {
		CALLED("cuMemGetInfo_v2");
		*free = device.free;
		*total = 2 * device.free;
		return 0;
	};
	driver.cuMemAlloc_v2 = [](Address *address, size_t bytes) -> Result {
		CALLED("cuMemAlloc_v2");
		device.live[ *address = device.next += 0x10000] = bytes;
		return 0;
	};
	driver.cuMemFree_v2 = [](Address address) -> Result {
		CALLED("cuMemFree_v2");
		return device.live.erase(address) ? 0 : CUDA_ERROR_INVALID_VALUE;
	};
	driver.cuMemsetD8Async = [](Address, unsigned char, size_t, Stream stream) -> Result {
		CALLED("cuMemsetD8Async");
		device.stream = stream;
		return 0;
	};
	driver.cuMemHostRegister_v2 = [](void *memory, size_t, unsigned flags) -> Result {
		CALLED("cuMemHostRegister_v2");
		device.registered.insert(memory);
		device.registerFlags = flags;
		return 0;
	};
	driver.cuMemHostUnregister = [](void *memory) -> Result {
		CALLED("cuMemHostUnregister");
		return device.registered.erase(memory) ? 0 : CUDA_ERROR_INVALID_VALUE;
	};
	driver.cuMemHostGetDevicePointer_v2 = [](Address *address, void *, unsigned) -> Result {
		CALLED("cuMemHostGetDevicePointer_v2");
		*address = 0x7000;
		return 0;
	};
	driver.cuMemPoolCreate = [](CUmemPoolHandle_st **pool, const void *properties) -> Result {
		CALLED("cuMemPoolCreate");
		const auto &asked = *static_cast<const CUmemPoolProps *>(properties);
		device.allocationType = asked.allocType;
		device.poolDevice = asked.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? asked.location.id : -2;
		device.pools++;
		*pool = reinterpret_cast<CUmemPoolHandle_st *>(&device);
		return 0;
	};
	driver.cuMemPoolDestroy = [](CUmemPoolHandle_st *) -> Result {
		CALLED("cuMemPoolDestroy");
		device.pools--;
		return 0;
	};
	driver.cuMemPoolSetAttribute = [](CUmemPoolHandle_st *, int id, void *value) -> Result {
		CALLED("cuMemPoolSetAttribute");
		uint64_t stored = 0;
		std::memcpy(&stored, value, id == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD ? 8 : 4);
		device.poolAttributes[id] = stored;
		return 0;
	};
	driver.cuMemPoolGetAttribute = [](CUmemPoolHandle_st *, int id, void *value) -> Result {
		CALLED("cuMemPoolGetAttribute");
		const uint64_t answer = id == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? device.used : device.reserved;
		std::memcpy(value, &answer, 8);
		return 0;
	};
	driver.cuMemPoolTrimTo = [](CUmemPoolHandle_st *, size_t bytes) -> Result {
		CALLED("cuMemPoolTrimTo");
		device.trimmedTo = bytes;
		device.reserved = std::max(device.used, std::min(device.reserved, bytes));
		return 0;
	};
	driver.cuMemAllocFromPoolAsync = [](Address *address, size_t bytes, CUmemPoolHandle_st *, Stream stream) -> Result {
		CALLED("cuMemAllocFromPoolAsync");
		device.inPool[ *address = device.next += 0x10000] = bytes;
		device.stream = stream;
		return 0;
	};
	driver.cuMemFreeAsync = [](Address address, Stream stream) -> Result {
		CALLED("cuMemFreeAsync");
		device.stream = stream;
		return device.inPool.erase(address) ? 0 : CUDA_ERROR_INVALID_VALUE;
	};
	driver.cuLibraryLoadData = [](CUlib_st **library, const void *image, int *, void **, unsigned, int *, void **,
	                              unsigned) -> Result {
		CALLED("cuLibraryLoadData");
		device.image = image;
		*library = reinterpret_cast<CUlib_st *>(&device);
		return 0;
	};
	driver.cuLibraryGetKernel = [](CUkern_st **kernel, CUlib_st *, const char *name) -> Result {
		CALLED("cuLibraryGetKernel");
		*kernel = reinterpret_cast<CUkern_st *>(const_cast<char *>(name)); // identifies the kernel
		return 0;
	};
	driver.cuUserObjectCreate = [](CUuserObject_st **object, void *pointer, void (*destroy)(void *),
	                               unsigned references, unsigned flags) -> Result {
		CALLED("cuUserObjectCreate");
		*object = new CUuserObject_st{pointer, destroy, references};
		device.objects++;
		device.objectFlags = flags;
		return 0;
	};
	driver.cuUserObjectRelease = [](CUuserObject_st *object, unsigned count) -> Result {
		CALLED("cuUserObjectRelease");
		dropped(object, count);
		return 0;
	};
	driver.cuGraphRetainUserObject = [](CUgraph_st *graph, CUuserObject_st *object, unsigned,
	                                    unsigned flags) -> Result {
		CALLED("cuGraphRetainUserObject");
		graph->owned.push_back(object);
		device.retainFlags = flags;
		return 0;
	};
	return driver;
}
#undef CALLED

inline const autoamp::cuda::Driver table = makeDriver();

} // namespace fake_driver
