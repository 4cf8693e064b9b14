#include "src/trace/cupti.h"

#include "src/base/clock.h"
#include "src/base/faults.h"
#include "src/base/log.h"
#include "src/trace/cupti_library.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace autoamp::trace::cupti {
namespace {

constexpr size_t bufferSize = size_t{1} << 20, mostBuffers = 64; // some 230 000 launches; then CUPTI drops
constexpr size_t mostPending = size_t{1} << 16, mostNodes = size_t{1} << 20, launchSlots = size_t{1} << 18;
constexpr unsigned roundsToWait = 2;                                   // seconds, for what a kernel's launch is told by
constexpr unsigned roundsOfSilence = 15;                               // seconds of launches, and no buffer comes back
constexpr auto externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2; // 0 and 1 are Kineto's

constexpr CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                        CUPTI_ACTIVITY_KIND_OVERHEAD};

// All API records would be most of the cost: only those that a kernel or copy has its correlation from. Numbers that a
// libcupti does not know are not enabled.
constexpr CUpti_CallbackId runtimeLaunches[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_ptsz_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_ptsz_v7000,
};
constexpr CUpti_CallbackId driverLaunches[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
    CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2,
    CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async_ptsz,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async,
    CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async_ptsz,
};
constexpr CUpti_CallbackIdResource nodeEvents[] = {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
                                                   CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED};

const char *const copyNames[] = {"[memcpy]",      "[memcpy HtoD]", "[memcpy DtoH]", "[memcpy HtoA]",
                                 "[memcpy AtoH]", "[memcpy AtoA]", "[memcpy AtoD]", "[memcpy DtoA]",
                                 "[memcpy DtoD]", "[memcpy HtoH]", "[memcpy PtoP]"};

// What of the time CUPTI says that it took itself; the last: whatever else.
struct Overhead {
	uint32_t kind;
	const char *name;
};
constexpr Overhead overheads[] = {
    {CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER, "driver_compiler"},
    {CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, "buffer_flush"},
    {CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION, "instrumentation"},
    {CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE, "resource"},
    {CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING, "module_loading"},
    {CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, "function_loading"},
    {CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL, "command_buffer_full"},
    {CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST, "buffer_request"},
    {CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT, "uvm_init"},
    {CUPTI_ACTIVITY_OVERHEAD_UNKNOWN, "other"},
};

// What CUPTI writes records to. The memory is malloc's: a client that takes the callbacks over is given ours, too, and
// may free it as its own.
struct Buffer {
	uint8_t *data;
	Buffer *next;
	size_t valid;
	bool isOut; // with CUPTI
};

struct Pending {
	KernelEvent event; // times are still CUPTI's
	uint32_t correlation;
	uint64_t node; // of a graph; 0: launched by itself
	unsigned age;
};

struct Launch { // by correlation
	uint32_t correlation;
	bool isApi; // its API record was seen
	Launcher launcher;
	uint64_t start;
};

// A reason to end. The kinds are the other client's as well, then: they are left alone.
const char *const buffersTaken = "another client of CUPTI seems to have taken the buffers over: none comes back";

struct Collector {
	Recorder *recorder;
	Launcher (*current)();
	bool (*isWanted)();
	Cupti library;
	CUpti_SubscriberHandle subscriber = nullptr;

	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of the two that follow; never held while CUPTI is called
	Buffer *idle = nullptr, *full = nullptr, **fullEnd = &full;
	std::unordered_map<uint64_t, Launcher> nodes; // of graphs, by CUPTI's number
	Buffer buffers[mostBuffers] = {};
	size_t buffersMade = 0;
	// Somebody was pushed since a buffer came back; kernels of ours since one was asked for, too.
	std::atomic<bool> isPushed{false}, isLaunched{false};
	std::atomic<unsigned> silence{0}; // rounds since then in which they seemed to be taken

	std::atomic<const char *> failed{nullptr};
	std::atomic<int> failure{0};
	std::atomic<bool> isLeaving{false};
	std::atomic<bool> isRecording{false}, isSwitching{false}; // kinds are enabled; a thread is at it
	sem_t wake;
	pthread_t helper;
	bool hasHelper = false, isTold = false; // that it failed

	// The helper's alone, and after it ended finish()'s.
	Launch *launches = nullptr;
	std::vector<Pending> pending;
	std::vector<KernelEvent> settled;
	KernelLosses losses;
	uint64_t seen = 0, invalid = 0;
	uint64_t clockCupti = 0, clockTrace = 0; // one moment on both clocks
};
Collector *collector = nullptr; // made once, never destroyed: CUPTI's worker may call at any time

struct Locked {
	Locked() { pthread_mutex_lock(&collector->lock); }
	~Locked() { pthread_mutex_unlock(&collector->lock); }
};

// The first reason to end: whoever sees it says so, the helper switches off. failure: CUPTI's of the function `why`, or
// CUPTI_SUCCESS.
void end(const char *why, CUptiResult failure)
{
	const char *none = nullptr;
	if (!collector->failed.compare_exchange_strong(none, why))
		return;
	collector->failure = failure;
	isOn.store(false, std::memory_order_relaxed);
	sem_post(&collector->wake);
}

bool isFine(CUptiResult result, const char *what)
{
	if (result == CUPTI_SUCCESS)
		return true;
	end(what, result);
	return false;
}
#define CALL(name, ...) isFine(collector->library.name(__VA_ARGS__), #name)

// ---- called by CUPTI, on its threads and the application's

void CUPTIAPI requestBuffer(uint8_t **data, size_t *size, size_t *maxRecords)
{
	Buffer *buffer = nullptr;
	{
		const Locked locked;
		if (collector->idle)
			buffer = std::exchange(collector->idle, collector->idle->next);
		else if (collector->buffersMade < mostBuffers) {
			Buffer &made = collector->buffers[collector->buffersMade++];
			made.data = static_cast<uint8_t *>(malloc(bufferSize));
			buffer = made.data ? &made : nullptr;
		}
		if (buffer)
			buffer->isOut = true;
	}
	collector->isLaunched.store(false, std::memory_order_relaxed);
	*data = buffer ? buffer->data : nullptr;
	*size = buffer ? bufferSize : 0;
	*maxRecords = 0; // as many as there is room for
}

// It may be one of a client's whose callbacks ours have replaced: not ours to write to, nor to free.
void CUPTIAPI completeBuffer(CUcontext, uint32_t, uint8_t *data, size_t, size_t valid)
{
	{
		const Locked locked;
		Buffer *const end = collector->buffers + collector->buffersMade;
		Buffer *const buffer =
		    std::find_if(collector->buffers, end, [&](const Buffer &one) { return one.isOut && one.data == data; });
		if (!data || buffer == end)
			return;
		buffer->isOut = false;
		buffer->next = nullptr;
		buffer->valid = valid;
		*collector->fullEnd = buffer;
		collector->fullEnd = &buffer->next;
	}
	collector->silence = 0;
	collector->isPushed.store(false, std::memory_order_relaxed);
	collector->isLaunched.store(false, std::memory_order_relaxed);
	sem_post(&collector->wake);
}

// Calls were launched, and nothing was asked for or came back: the callbacks are another client's by now.
bool areBuffersTaken()
{
	const Locked locked;
	return collector->isPushed.load(std::memory_order_relaxed) &&
	       (collector->isLaunched.load(std::memory_order_relaxed) ||
	        std::any_of(std::begin(collector->buffers), std::end(collector->buffers),
	                    [](const Buffer &one) { return one.isOut; }));
}

// Inside the call that adds a node to a graph, or copies a graph; nothing of CUDA may be called here.
void CUPTIAPI onEvent(void *, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	if (domain != CUPTI_CB_DOMAIN_RESOURCE || !isOn.load(std::memory_order_relaxed))
		return;
	const auto *graph =
	    static_cast<const CUpti_GraphData *>(static_cast<const CUpti_ResourceData *>(data)->resourceDescriptor);
	uint64_t node = 0, original = 0;
	if (!CALL(cuptiGetGraphNodeId, graph->node, &node))
		return;
	const bool isClone = id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED;
	if (isClone && !CALL(cuptiGetGraphNodeId, graph->originalNode, &original))
		return;
	Launcher launcher = isClone ? 0 : collector->current();
	const Locked locked;
	if (isClone) {
		const auto found = collector->nodes.find(original);
		if (found == collector->nodes.end()) // older than we are
			return;
		launcher = found->second;
	}
	if (collector->nodes.size() < mostNodes)
		collector->nodes[node] = launcher;
}

// ---- records

Launch &launchOf(uint32_t correlation)
{
	Launch &launch = collector->launches[correlation % launchSlots];
	if (launch.correlation != correlation)
		launch = {correlation, false, 0, 0};
	return launch;
}

template <class Record>
void addPending(const Record &record, const char *name, uint16_t flags)
{
	Pending one = {};
	one.event.startNs = record.start;
	one.event.endNs = record.end;
	one.event.name = name ? name : "";
	one.event.stream = record.streamId;
	one.event.device = static_cast<uint16_t>(record.deviceId);
	one.event.flags = static_cast<uint16_t>(flags | (record.graphNodeId ? kernelGraph : 0) |
	                                        (collector->library.isEmulated ? kernelEmulated : 0));
	one.correlation = record.correlationId;
	one.node = record.graphNodeId;
	collector->pending.push_back(one);
}

void read(const CUpti_Activity *activity)
{
	switch (activity->kind) {
	case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
		const auto &record = *reinterpret_cast<const ExternalRecord *>(activity);
		if (record.externalKind == externalKind)
			launchOf(record.correlationId).launcher = record.externalId;
		break;
	}
	case CUPTI_ACTIVITY_KIND_RUNTIME:
	case CUPTI_ACTIVITY_KIND_DRIVER: {
		const auto &record = *reinterpret_cast<const ApiRecord *>(activity);
		Launch &launch = launchOf(record.correlationId);
		launch.isApi = true;
		launch.start = record.start;
		break;
	}
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
		const auto &record = *reinterpret_cast<const KernelRecord *>(activity);
		addPending(record, record.name, 0);
		break;
	}
	case CUPTI_ACTIVITY_KIND_MEMCPY: {
		const auto &record = *reinterpret_cast<const MemoryRecord *>(activity);
		addPending(record, copyNames[record.copyKind < std::size(copyNames) ? record.copyKind : 0], kernelMemory);
		break;
	}
	case CUPTI_ACTIVITY_KIND_MEMSET:
		addPending(*reinterpret_cast<const MemoryRecord *>(activity), "[memset]", kernelMemory);
		break;
	case CUPTI_ACTIVITY_KIND_OVERHEAD: {
		const auto &record = *reinterpret_cast<const OverheadRecord *>(activity);
		const auto known = std::find_if(std::begin(overheads), std::end(overheads) - 1,
		                                [&](const Overhead &one) { return one.kind == record.overheadKind; });
		collector->recorder->overhead(known->name, record.end > record.start ? record.end - record.start : 0,
		                              collector->library.isEmulated);
		break;
	}
	default:
		break;
	}
}

bool findNode(uint64_t node, Launcher &launcher)
{
	const Locked locked;
	const auto found = collector->nodes.find(node);
	if (found == collector->nodes.end())
		return false;
	launcher = found->second;
	return true;
}

// True: it has its row, or will get none. Buffers come late and in any order, so that a kernel may be here before what
// says who launched it.
bool settle(Pending &one, bool isRound, bool isLast)
{
	KernelEvent &event = one.event;
	const Launch &slot = collector->launches[one.correlation % launchSlots];
	const Launch launch = slot.correlation == one.correlation ? slot : Launch{};
	Launcher launcher = launch.launcher;
	const bool isKnown = one.node ? findNode(one.node, launcher) : launcher || launch.isApi;
	if (!launcher && !(one.node && isKnown) && !isLast && (one.age += isRound) <= roundsToWait)
		return false;
	collector->seen++;
	event.row = static_cast<RowId>(launcher >> 43 & (kRowLimit - 1));
	event.call = launcher & ((uint64_t{1} << 43) - 1);
	if (launcher & launcherOurs)
		event.flags |= kernelOurs;
	if (isKnown ? !launcher : (event.flags & kernelMemory) != 0) // of copies not all launches are asked for
		event.flags |= kernelOutside;
	else if (!isKnown)
		collector->losses.unattributed++;
	if (event.startNs == 0 || event.endNs < event.startNs || event.startNs < launch.start) {
		collector->losses.invalid++;
		collector->invalid++;
		event.startNs = event.endNs = 0;
	} else {
		const uint64_t start = event.startNs - collector->clockCupti + collector->clockTrace;
		event.endNs = start + (event.endNs - event.startNs);
		event.startNs = start;
	}
	collector->settled.push_back(event);
	return true;
}

// Device memory for timestamps that runs out for good shows as times of 0: the rest is not worth what it costs.
void watchTimes()
{
	if (collector->seen < 4096)
		return;
	if (collector->invalid * 10 > collector->seen)
		end("one in ten of CUPTI's times is impossible", CUPTI_SUCCESS);
	collector->seen = collector->invalid = 0;
}

void setClock()
{
	uint64_t now = 0;
	if (!CALL(cuptiGetTimestamp, &now))
		return;
	collector->clockTrace = collector->recorder->clock(now);
	collector->clockCupti = now;
}

// All that CUPTI has given back so far.
void consume(bool isRound, bool isLast)
{
	Buffer *buffers;
	{
		const Locked locked;
		buffers = std::exchange(collector->full, nullptr);
		collector->fullEnd = &collector->full;
	}
	while (buffers) {
		CUpti_Activity *record = nullptr;
		CUptiResult result = CUPTI_ERROR_MAX_LIMIT_REACHED; // the end of a buffer
		const auto next = [&] {
			return result = collector->library.cuptiActivityGetNextRecord(buffers->data, buffers->valid, &record);
		};
		while (buffers->valid && next() == CUPTI_SUCCESS)
			read(record);
		if (result != CUPTI_ERROR_MAX_LIMIT_REACHED)
			isFine(result, "cuptiActivityGetNextRecord");
		const Locked locked;
		buffers = std::exchange(buffers->next, std::exchange(collector->idle, buffers));
	}
	size_t dropped = 0;
	if (CALL(cuptiActivityGetNumDroppedRecords, nullptr, 0, &dropped))
		collector->losses.dropped += dropped;
	std::vector<Pending> &pending = collector->pending;
	const size_t excess = pending.size() > mostPending ? pending.size() - mostPending : 0;
	for (size_t i = 0; i < excess; ++i)
		settle(pending[i], true, true);
	pending.erase(pending.begin(), pending.begin() + static_cast<ptrdiff_t>(excess));
	std::erase_if(pending, [&](Pending &one) { return settle(one, isRound, isLast); });
	collector->recorder->kernels(collector->settled, collector->losses);
	collector->settled.clear();
	collector->losses = {};
	watchTimes();
}

// ---- life

// What is launched from now on is not recorded. Kernels first: one whose launch is not told would be nobody's.
CUptiResult disable()
{
	CUptiResult first = CUPTI_SUCCESS;
	const auto note = [&first](CUptiResult result) {
		if (first == CUPTI_SUCCESS && result != CUPTI_ERROR_INVALID_PARAMETER) // a number that it does not know
			first = result;
	};
	for (const CUpti_ActivityKind kind : kinds)
		note(collector->library.cuptiActivityDisable(kind));
	for (const CUpti_CallbackId launch : runtimeLaunches)
		note(collector->library.cuptiActivityEnableRuntimeApi(launch, 0));
	for (const CUpti_CallbackId launch : driverLaunches)
		note(collector->library.cuptiActivityEnableDriverApi(launch, 0));
	return first;
}

// Undoes what start() did; an error of this is nobody's news any more.
void switchOff()
{
	isOn.store(false, std::memory_order_relaxed);
	if (collector->failed.load() != buffersTaken)
		disable();
	if (collector->subscriber)
		collector->library.cuptiUnsubscribe(std::exchange(collector->subscriber, nullptr));
}

void tellOff(Recorder &recorder, const char *why)
{
	base::log(base::LogLevel::warn, "kernels are not traced: %s", why);
	recorder.note(noteOfKernels, why);
}

// Once, whoever sees it first.
void endIfFailed()
{
	if (!collector->failed.load() || std::exchange(collector->isTold, true))
		return;
	switchOff();
	char text[160];
	if (const int failure = collector->failure)
		snprintf(text, sizeof text, "%s failed (%d)", collector->failed.load(), failure);
	else
		snprintf(text, sizeof text, "%s", collector->failed.load());
	tellOff(*collector->recorder, text);
}

void *help(void *)
{
	timespec due;
	clock_gettime(CLOCK_REALTIME, &due);
	while (!collector->isLeaving && !collector->failed.load()) {
		const bool isTime = sem_timedwait(&collector->wake, &due) != 0;
		if (collector->isLeaving || collector->failed.load())
			break;
		if (isTime) { // what is complete comes back now; the rest later
			renew();
			CALL(cuptiActivityFlushAll, 0);
			setClock();
			clock_gettime(CLOCK_REALTIME, &due);
			due.tv_sec++;
			if (areBuffersTaken() && ++collector->silence >= roundsOfSilence)
				end(buffersTaken, CUPTI_SUCCESS);
		}
		consume(isTime, false);
	}
	endIfFailed();
	return nullptr;
}

bool subscribe(char (&why)[160])
{
	const Cupti &cupti = collector->library;
	char holder[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN + 1] = "";
	CUptiResult result;
	if (cupti.cuptiSubscribe_v2) {
		CUpti_SubscriberParams parameters = {};
		parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
		parameters.subscriberName = "autoamp";
		parameters.oldSubscriberName = holder;
		parameters.oldSubscriberSize = sizeof holder - 1;
		result = cupti.cuptiSubscribe_v2(&collector->subscriber, onEvent, nullptr, &parameters);
	} else {
		result = cupti.cuptiSubscribe(&collector->subscriber, onEvent, nullptr);
	}
	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
		snprintf(why, sizeof why, "%s uses CUPTI in this process, which serves one", *holder ? holder : "another tool");
	else if (result != CUPTI_SUCCESS)
		snprintf(why, sizeof why, "cuptiSubscribe failed (%d)", result);
	if (result != CUPTI_SUCCESS)
		collector->subscriber = nullptr;
	return result == CUPTI_SUCCESS;
}

bool enableLaunches()
{
	const auto isKnown = [](CUptiResult result) { return result != CUPTI_ERROR_INVALID_PARAMETER; };
	for (const CUpti_CallbackId launch : runtimeLaunches)
		if (const CUptiResult result = collector->library.cuptiActivityEnableRuntimeApi(launch, 1);
		    isKnown(result) && !isFine(result, "cuptiActivityEnableRuntimeApi"))
			return false;
	for (const CUpti_CallbackId launch : driverLaunches)
		if (const CUptiResult result = collector->library.cuptiActivityEnableDriverApi(launch, 1);
		    isKnown(result) && !isFine(result, "cuptiActivityEnableDriverApi"))
			return false;
	return true;
}

bool enable()
{
	if (!enableLaunches())
		return false;
	for (const CUpti_ActivityKind kind : kinds)
		if (!CALL(cuptiActivityEnable, kind))
			return false;
	return true;
}

bool prepare()
{
	// A pool as large as CUPTI's own default may take 800 MB of the device.
	size_t size = sizeof(size_t), limit = 32;
	if (collector->library.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, &size, &limit))
		base::leaveFault("cuptiActivitySetAttribute");
	for (const CUpti_CallbackIdResource event : nodeEvents)
		if (!CALL(cuptiEnableCallback, 1, collector->subscriber, CUPTI_CB_DOMAIN_RESOURCE, event))
			return false;
	return CALL(cuptiActivityRegisterCallbacks, requestBuffer, completeBuffer);
}

// Signals of the application are none of its business.
bool startHelper()
{
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	collector->hasHelper = pthread_create(&collector->helper, nullptr, help, nullptr) == 0;
	pthread_sigmask(SIG_SETMASK, &before, nullptr);
	return collector->hasHelper;
}

} // namespace

constinit std::atomic<bool> isOn{false};

void start(Recorder &recorder, const char *path, Launcher (*current)(), bool (*isWanted)())
{
	char why[160] = "no memory";
	auto *made = new Collector;
	made->recorder = &recorder;
	made->current = current;
	made->isWanted = isWanted;
	made->launches = static_cast<Launch *>(base::mapPages(launchSlots * sizeof(Launch)));
	sem_init(&made->wake, 0, 0);
	if (!made->launches || !loadCupti(path, made->library, why)) {
		tellOff(recorder, why);
		return;
	}
	collector = made;
	if (!subscribe(why)) {
		tellOff(recorder, why);
		return;
	}
	uint32_t version = 0;
	if (CALL(cuptiGetVersion, &version) && prepare()) {
		isOn.store(true, std::memory_order_release);
		renew();
		char text[24];
		snprintf(text, sizeof text, "%u", version);
		recorder.property("version", "cupti", text);
		recorder.kernels({}, {});
		setClock();
	}
	if (collector->failed.load() || !startHelper()) {
		end("no thread could be made", CUPTI_SUCCESS);
		endIfFailed();
		return;
	}
}

// Whoever finds another thread at it leaves it to that one, which looks again: no lock is held while CUPTI is called.
void renew()
{
	while (isOn.load(std::memory_order_acquire) && collector->isWanted() != collector->isRecording.load()) {
		if (collector->isSwitching.exchange(true))
			return;
		const bool isWanted = collector->isWanted();
		if (isWanted != collector->isRecording.load()) {
			isWanted ? enable() : isFine(disable(), "cuptiActivityDisable");
			collector->isRecording.store(isWanted);
		}
		collector->isSwitching.store(false);
	}
}

void finish()
{
	if (!collector || !collector->hasHelper)
		return;
	collector->isLeaving = true;
	sem_post(&collector->wake);
	timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 5;
	if (pthread_timedjoin_np(collector->helper, nullptr, &until)) // it waits for something of CUPTI's
		return;
	collector->hasHelper = false;
	endIfFailed();
	if (collector->isTold)
		return;
	isOn.store(false, std::memory_order_relaxed);
	for (const CUpti_ActivityKind kind : kinds)
		collector->library.cuptiActivityDisable(kind);
	collector->silence = 1; // until one comes back
	CALL(cuptiActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	setClock();
	consume(true, true);
	if (collector->silence && areBuffersTaken())
		end(buffersTaken, CUPTI_SUCCESS);
	switchOff();
	endIfFailed();
}

void forget()
{
	isOn.store(false, std::memory_order_relaxed);
	if (collector)
		collector->hasHelper = false;
}

void push(Launcher launcher)
{
	if (!collector->isPushed.load(std::memory_order_relaxed))
		collector->isPushed.store(true, std::memory_order_relaxed);
	if (launcher & launcherOurs && !collector->isLaunched.load(std::memory_order_relaxed))
		collector->isLaunched.store(true, std::memory_order_relaxed);
	CALL(cuptiActivityPushExternalCorrelationId, externalKind, launcher);
}

void pop()
{
	// Also after it was switched off: what was pushed goes. An error then is nobody's news.
	uint64_t launcher = 0;
	const CUptiResult result = collector->library.cuptiActivityPopExternalCorrelationId(externalKind, &launcher);
	if (isOn.load(std::memory_order_relaxed))
		isFine(result, "cuptiActivityPopExternalCorrelationId");
}

} // namespace autoamp::trace::cupti
