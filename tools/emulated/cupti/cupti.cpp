// The emulated libcupti: the functions that collectors use, with records of the emulated device. Any thread. Times are
// those of the host and have no meaning. As in the real library, a lock is held during client callbacks.
// ThreadSanitizer therefore finds a client that holds its own lock around a flush.
#include "core.h"

#define CUPTI_LIB // exports its functions
#include <cupti.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string_view>

namespace {

using namespace emulated;

uint64_t now()
{
	timespec time;
	clock_gettime(CLOCK_REALTIME, &time);
	return uint64_t(time.tv_sec) * 1'000'000'000 + uint64_t(time.tv_nsec);
}

// True if AUTOAMP_EMU_CUPTI contains this fault.
bool misbehaves(std::string_view word)
{
	static const char *const wanted = getenv("AUTOAMP_EMU_CUPTI");
	for (std::string_view rest = wanted ? wanted : ""; !rest.empty();) {
		const size_t end = std::min(rest.find(','), rest.size());
		if (rest.substr(0, end) == word)
			return true;
		rest.remove_prefix(std::min(end + 1, rest.size()));
	}
	return false;
}

// A client's buffer during filling.
struct Buffer {
	uint8_t *data = nullptr;
	size_t size = 0, used = 0, records = 0;
};

// Each source of records has its own buffers: the device (0), and each launching thread.
struct Source {
	Buffer filling;
	std::vector<Buffer> closed;
};
constexpr unsigned device = 0;

unsigned host()
{
	static std::atomic<unsigned> count{0};
	thread_local const unsigned number = ++count;
	return number;
}

struct Library {
	std::recursive_mutex mutex;
	CUpti_CallbackFunc callback = nullptr; // null: no subscriber
	void *userData = nullptr;
	std::string subscriber;
	std::set<std::pair<int, CUpti_CallbackId>> events;
	CUpti_BuffersCallbackRequestFunc request = nullptr;
	CUpti_BuffersCallbackCompleteFunc complete = nullptr;
	std::set<int> kinds;
	std::set<CUpti_CallbackId> runtime, driver;
	std::map<unsigned, Source> sources;
	size_t dropped = 0, seen = 0;
	uint32_t correlations = 0;
};

Library &library()
{
	static auto *all = new Library;
	return *all;
}

struct Locked {
	Locked() { library().mutex.lock(); }
	~Locked() { library().mutex.unlock(); }
};

thread_local std::vector<std::pair<CUpti_ExternalCorrelationKind, uint64_t>> externals;

// The real library destroys its objects at exit. A later call uses destroyed objects and crashes.
std::atomic<bool> isDestroyed{false};
struct Object {
	~Object() { isDestroyed = true; }
} const ofLibrary;

// Runs first in each function. In a forked child the real library hangs; this one reports the call.
CUptiResult enter(const char *name)
{
	if (isDestroyed) {
		say("%s after the library's exit handlers", name);
		raise(SIGSEGV);
	}
	if (hasForked())
		say("%s in a forked child", name);
	return mustFail(name) ? CUPTI_ERROR_UNKNOWN : CUPTI_SUCCESS;
}
#define ENTER                                                                                                          \
	if (const CUptiResult failed = enter(__func__))                                                                    \
		return failed;                                                                                                 \
	const Locked locked;                                                                                               \
	[[maybe_unused]] Library &all = library();

template <typename Value>
void enableIn(std::set<Value> &enabled, const Value &value, bool isEnabled)
{
	if (isEnabled)
		enabled.insert(value);
	else
		enabled.erase(value);
}

void close(Source &source)
{
	const Buffer buffer = std::exchange(source.filling, {});
	if (buffer.data)
		source.closed.push_back(buffer);
}

// Adds a record. With the fault `held`, buffers are full at 16 records and complete only at a forced flush.
template <class Record>
void put(unsigned number, const Record &record)
{
	Library &all = library();
	Source &source = all.sources[number];
	Buffer &buffer = source.filling;
	if (buffer.data && (buffer.size - buffer.used < sizeof record || (misbehaves("held") && buffer.records == 16)))
		close(source);
	if (!buffer.data && all.request) {
		size_t most = 0;
		all.request(&buffer.data, &buffer.size, &most);
	}
	if (!buffer.data) {
		all.dropped++;
		return;
	}
	memcpy(buffer.data + buffer.used, &record, sizeof record);
	buffer.used += sizeof record;
	buffer.records++;
}

void giveBack(Source &source)
{
	std::vector<Buffer> buffers = std::exchange(source.closed, {});
	if (misbehaves("shuffled"))
		std::reverse(buffers.begin(), buffers.end());
	for (const Buffer &buffer : buffers)
		library().complete(nullptr, 0, buffer.data, buffer.size, buffer.used);
}

// ---- events of the device

constexpr CUpti_ActivityKind kindOf(cudaGraphNodeType type)
{
	return type == cudaGraphNodeTypeMemcpy   ? CUPTI_ACTIVITY_KIND_MEMCPY
	       : type == cudaGraphNodeTypeMemset ? CUPTI_ACTIVITY_KIND_MEMSET
	                                         : CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
}

void notify(CUpti_CallbackIdResource id, cudaGraphNode_t node, cudaGraphNode_t original)
{
	const Locked locked;
	Library &all = library();
	if (!all.callback || !all.events.count({CUPTI_CB_DOMAIN_RESOURCE, id}))
		return;
	CUpti_GraphData graph = {};
	graph.node = reinterpret_cast<CUgraphNode>(node);
	graph.originalNode = reinterpret_cast<CUgraphNode>(original);
	CUpti_ResourceData data = {};
	data.resourceDescriptor = &graph;
	all.callback(all.userData, CUPTI_CB_DOMAIN_RESOURCE, id, &data);
}

struct Function {
	CUpti_CallbackId runtime, driver;
};
constexpr Function functionOf(cudaGraphNodeType type)
{
	switch (type) {
	case cudaGraphNodeTypeGraph:
		return {CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch};
	case cudaGraphNodeTypeMemcpy:
		return {CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2};
	case cudaGraphNodeTypeMemset:
		return {CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async};
	default:
		return {CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel};
	}
}

// Callbacks before and after a function that launches work. The fault `orphaned` drops them. Runtime functions call
// driver functions with the same correlation id.
void callBack(bool byDriver, Function called, uint32_t correlation, cudaGraphNode_t made = nullptr)
{
	Library &all = library();
	const auto enter = [&](CUpti_CallbackDomain domain, CUpti_CallbackId function, uint64_t &shared, bool isEnter) {
		if (!all.callback || !all.events.count({domain, function}) || misbehaves("orphaned"))
			return;
		const int success = 0;
		CUpti_CallbackData data = {};
		data.callbackSite = isEnter ? CUPTI_API_ENTER : CUPTI_API_EXIT;
		data.functionReturnValue = const_cast<int *>(&success);
		data.correlationId = correlation;
		data.correlationData = &shared;
		all.callback(all.userData, domain, function, &data);
	};
	uint64_t runtime = 0, driver = 0;
	if (!byDriver)
		enter(CUPTI_CB_DOMAIN_RUNTIME_API, called.runtime, runtime, true);
	enter(CUPTI_CB_DOMAIN_DRIVER_API, called.driver, driver, true);
	if (made)
		notify(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, made, nullptr);
	enter(CUPTI_CB_DOMAIN_DRIVER_API, called.driver, driver, false);
	if (!byDriver)
		enter(CUPTI_CB_DOMAIN_RUNTIME_API, called.runtime, runtime, false);
}

// Called at each launch. The record kinds enabled now decide whether the work is recorded when it ends.
Launched launched(cudaGraphNodeType type, bool byDriver)
{
	const Locked locked;
	Library &all = library();
	const uint32_t correlation = ++all.correlations;
	Launched answer = {correlation, 0};
	for (const cudaGraphNodeType work : {cudaGraphNodeTypeKernel, cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeMemset})
		if (all.kinds.count(kindOf(work)))
			answer.wanted |= 1u << work;
	if (type != cudaGraphNodeTypeHost)
		callBack(byDriver, functionOf(type), correlation);
	return answer;
}

template <class Record>
void fill(Record &record, CUpti_ActivityKind kind, const Work &work, uint64_t start, uint64_t end)
{
	record.kind = kind;
	record.start = start;
	record.end = end;
	record.deviceId = uint32_t(work.device);
	record.contextId = uint32_t(work.context);
	record.streamId = uint32_t(work.stream);
	record.correlationId = work.launched.correlation;
	record.graphNodeId = work.node;
}

void ran(const Work &work)
{
	const Locked locked;
	Library &all = library();
	const CUpti_ActivityKind kind = kindOf(work.type);
	if (!(work.launched.wanted >> work.type & 1u))
		return;
	uint64_t start = work.start, end = work.end;
	const bool isThird = ++all.seen % 3 == 0;
	if (isThird && misbehaves("dropped")) {
		all.dropped++;
		return;
	}
	if (isThird && misbehaves("lost"))
		start = end = 0;
	if (isThird && misbehaves("early"))
		start -= 3'600'000'000'000;
	if (isThird && misbehaves("reversed"))
		std::swap(start, ++end);
	if (kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
		CUpti_ActivityMemcpy6 record = {};
		fill(record, kind, work, start, end);
		record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN;
		put(device, record);
	} else if (kind == CUPTI_ACTIVITY_KIND_MEMSET) {
		CUpti_ActivityMemset4 record = {};
		fill(record, kind, work, start, end);
		put(device, record);
	} else {
		CUpti_ActivityKernel10 record = {};
		fill(record, kind, work, start, end);
		record.name = work.name;
		put(device, record);
	}
}

// A kernel launch in a captured stream creates a node instead.
void captured(cudaGraphNode_t node)
{
	const Locked locked;
	callBack(false, functionOf(cudaGraphNodeTypeKernel), ++library().correlations, node);
}

constexpr Watcher watching = {launched, ran, captured, [](cudaGraphNode_t node, cudaGraphNode_t original) {
	                              notify(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, node, original);
                              }};

void copyName(char *to, size_t size, const std::string &name)
{
	if (to && size)
		snprintf(to, size, "%s", name.c_str());
}

CUptiResult subscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *userData,
                      CUpti_SubscriberParams *parameters)
{
	Library &all = library();
	if (!subscriber || !callback || (parameters && parameters->structSize < sizeof(size_t)))
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (all.callback || misbehaves("taken")) {
		if (parameters)
			copyName(parameters->oldSubscriberName, parameters->oldSubscriberSize,
			         all.callback ? all.subscriber : "Nsight Systems");
		return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	}
	all.callback = callback;
	all.userData = userData;
	all.subscriber =
	    parameters && parameters->subscriberName ? std::string("CUPTI for ") + parameters->subscriberName : "CUPTI";
	*subscriber = reinterpret_cast<CUpti_SubscriberHandle>(&all);
	return CUPTI_SUCCESS;
}

} // namespace

CUptiResult cuptiGetVersion(uint32_t *version)
{
	ENTER
	if (!version)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*version = CUPTI_API_VERSION;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
	if (const CUptiResult failed = enter(__func__))
		return failed;
	if (!timestamp)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*timestamp = now();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
	*text = result == CUPTI_SUCCESS ? "CUPTI_SUCCESS"
	        : result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
	            ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
	            : "CUPTI_ERROR_UNKNOWN";
	return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *userData)
{
	ENTER
	return subscribe(subscriber, callback, userData, nullptr);
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *userData,
                              CUpti_SubscriberParams *parameters)
{
	ENTER
	return subscribe(subscriber, callback, userData, parameters);
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
	ENTER
	if (subscriber != reinterpret_cast<CUpti_SubscriberHandle>(&all) || !all.callback)
		return CUPTI_ERROR_INVALID_PARAMETER;
	all.callback = nullptr;
	all.events.clear();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiFinalize()
{
	ENTER
	all.callback = nullptr; // of all clients
	all.events.clear();
	all.kinds.clear();
	all.runtime.clear();
	all.driver.clear();
	all.request = nullptr;
	all.complete = nullptr;
	all.sources.clear();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber, CUpti_CallbackDomain domain,
                                CUpti_CallbackId id)
{
	ENTER
	if (subscriber != reinterpret_cast<CUpti_SubscriberHandle>(&all) || !all.callback)
		return CUPTI_ERROR_INVALID_PARAMETER;
	enableIn(all.events, {domain, id}, enable);
	watcher = &watching;
	return CUPTI_SUCCESS;
}

// May be called inside a callback, where the device's own lock is held.
CUptiResult cuptiGetGraphNodeId(CUgraphNode node, uint64_t *id)
{
	if (const CUptiResult failed = enter(__func__))
		return failed;
	if (!node || !id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*id = nodeNumber(reinterpret_cast<cudaGraphNode_t>(node));
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete)
{
	ENTER
	if (!request || !complete)
		return CUPTI_ERROR_INVALID_PARAMETER;
	all.request = request; // the last caller replaces the others: the real library supports one client too
	all.complete = complete;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	ENTER
	all.kinds.insert(kind);
	watcher = &watching;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	ENTER
	all.kinds.erase(kind);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t enable)
{
	ENTER
	enableIn(all.runtime, id, enable);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t enable)
{
	ENTER
	enableIn(all.driver, id, enable);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t *size, void *value)
{
	ENTER
	return size && value ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

// With the fault `late`, records of host threads are delivered one flush after those of the device.
CUptiResult cuptiActivityFlushAll(uint32_t flags)
{
	ENTER
	if (!all.complete)
		return CUPTI_ERROR_INVALID_OPERATION;
	const bool isForced = flags & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;
	if (misbehaves("held") && !isForced)
		return CUPTI_SUCCESS;
	const bool isLate = misbehaves("late") && !isForced, isShuffled = misbehaves("shuffled");
	CUpti_ActivityOverhead3 overhead = {};
	overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
	overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
	overhead.start = now();
	overhead.end = overhead.start + 1000;
	if (all.kinds.count(CUPTI_ACTIVITY_KIND_OVERHEAD))
		put(host(), overhead);
	const auto flush = [&](bool ofDevice) {
		for (auto &[number, source] : all.sources) {
			if ((number == device) != ofDevice)
				continue;
			if (isLate && !ofDevice)
				giveBack(source);
			close(source);
			if (!isLate || ofDevice)
				giveBack(source);
		}
	};
	flush(isShuffled || isLate);
	flush(!isShuffled && !isLate);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	if (const CUptiResult failed = enter(__func__))
		return failed;
	const auto sizeOf = [](const CUpti_Activity *one) -> size_t {
		switch (one->kind) {
		case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
			return sizeof(CUpti_ActivityKernel10);
		case CUPTI_ACTIVITY_KIND_MEMCPY:
			return sizeof(CUpti_ActivityMemcpy6);
		case CUPTI_ACTIVITY_KIND_MEMSET:
			return sizeof(CUpti_ActivityMemset4);
		case CUPTI_ACTIVITY_KIND_OVERHEAD:
			return sizeof(CUpti_ActivityOverhead3);
		case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
			return sizeof(CUpti_ActivityExternalCorrelation);
		default:
			return sizeof(CUpti_ActivityAPI);
		}
	};
	if (!buffer || !record)
		return CUPTI_ERROR_INVALID_PARAMETER;
	uint8_t *next = *record ? reinterpret_cast<uint8_t *>(*record) + sizeOf(*record) : buffer;
	if (next >= buffer + valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = reinterpret_cast<CUpti_Activity *>(next);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t *dropped)
{
	ENTER
	if (!dropped)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*dropped = std::exchange(all.dropped, 0);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
	if (const CUptiResult failed = enter(__func__))
		return failed;
	externals.emplace_back(kind, id);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *last)
{
	if (const CUptiResult failed = enter(__func__))
		return failed;
	for (auto external = externals.rbegin(); external != externals.rend(); ++external)
		if (external->first == kind) {
			if (last)
				*last = external->second;
			externals.erase(std::next(external).base());
			return CUPTI_SUCCESS;
		}
	return CUPTI_ERROR_QUEUE_EMPTY;
}
