#include "src/trace/cupti/collector.h"

#include "src/base/caller_state.h"
#include "src/base/clock.h"
#include "src/base/faults.h"
#include "src/base/log.h"
#include "src/base/own_work.h"
#include "src/trace/cupti/library.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <map>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace autoamp::trace::cupti {
namespace {

constexpr size_t bufferSize = size_t{1} << 20, mostBuffers = 64; // 310 000 kernels; CUPTI drops further ones
constexpr size_t buffersToFlush = 32; // with so many in use, the helper does not wait for the next second
constexpr size_t mostNodes = size_t{1} << 20;
constexpr unsigned roundsOfSilence = 15;       // seconds with launches in which no buffer is returned
constexpr uint64_t patienceNs = 3'000'000'000; // at exit, without progress of the device
constexpr uint64_t graphTailNs = 200'000'000;  // at exit, after the first kernel of the last graph launch

constexpr CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                        CUPTI_ACTIVITY_KIND_MEMSET, CUPTI_ACTIVITY_KIND_OVERHEAD};

// Functions that launch work. Their callbacks are enabled; a number that this libcupti does not know is skipped.
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
constexpr size_t firstRuntimeGraph = 8, firstDriverGraph = 6; // kernels, then two for graphs, then copies and fills
static_assert(runtimeLaunches[firstRuntimeGraph] == CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000 &&
              driverLaunches[firstDriverGraph] == CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch);
constexpr CUpti_CallbackIdResource nodeEvents[] = {CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED,
                                                   CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED};

const char *const copyNames[] = {"[memcpy]",      "[memcpy HtoD]", "[memcpy DtoH]", "[memcpy HtoA]",
                                 "[memcpy AtoH]", "[memcpy AtoA]", "[memcpy AtoD]", "[memcpy DtoA]",
                                 "[memcpy DtoD]", "[memcpy HtoH]", "[memcpy PtoP]"};

// Kinds of CUPTI's own overhead. The last is for all other kinds.
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

// A buffer that CUPTI writes records to. Allocated with malloc: a client that replaces the callbacks also receives
// autoamp's buffers, and may free them as its own.
struct Buffer {
	uint8_t *data;
	Buffer *next;
	size_t valid;
	bool isOut; // CUPTI has it
};

// The launcher of every launch whose kernel or copy CUPTI has not returned so far, by CUPTI's correlation number.
// Numbers increase, so pages of slots are allocated as launches come and freed when the last work of a page has
// arrived.
class Outstanding
{
public:
	// Returns false if the number exists: a driver function that a runtime function calls has the same number.
	bool add(uint32_t correlation, Launcher launcher)
	{
		Page *page = find(correlation / slots);
		if (!page) {
			if (pages_.size() == mostPages) // work that never arrives must not fill the memory
				pages_.erase(pages_.begin());
			page = last_ = &pages_[correlation / slots];
			lastNumber_ = correlation / slots;
		}
		uint64_t &slot = page->launchers[correlation % slots];
		if (slot)
			return false;
		slot = launcher + 1;
		page->used++;
		return true;
	}
	bool take(uint32_t correlation, Launcher &launcher)
	{
		Page *const page = find(correlation / slots);
		uint64_t *const slot = page ? &page->launchers[correlation % slots] : nullptr;
		if (!slot || !*slot)
			return false;
		launcher = std::exchange(*slot, 0) - 1;
		if (--page->used == 0) {
			pages_.erase(correlation / slots);
			last_ = nullptr;
		}
		return true;
	}

private:
	static constexpr uint32_t slots = 1024;
	static constexpr size_t mostPages = 4096; // 32 MiB
	struct Page {
		uint64_t launchers[slots] = {}; // plus 1; 0: empty
		uint32_t used = 0;
	};
	Page *find(uint32_t number)
	{
		if (last_ && lastNumber_ == number)
			return last_;
		const auto found = pages_.find(number);
		if (found == pages_.end())
			return nullptr;
		lastNumber_ = number;
		return last_ = &found->second;
	}

	std::map<uint32_t, Page> pages_;
	Page *last_ = nullptr;
	uint32_t lastNumber_ = 0;
};

// A reason to stop. The activity kinds then belong to the other client as well and stay enabled.
const char *const buffersTaken = "another CUPTI client seems to receive the buffers: CUPTI returns none";
// The same at exit, where kernels that the program did not wait for cannot be distinguished.
const char *const nothingCame = "no record of the last kernels: they had not finished at exit, or another CUPTI "
                                "client received the buffers";

struct Collector {
	Recorder *recorder;
	Launcher (*current)(bool isNode);
	bool (*isWanted)();
	void (*watchExit)();
	LaunchRecord *counters; // in the trace file, so that they survive a kill
	Cupti library;
	CUpti_SubscriberHandle subscriber = nullptr;

	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of buffers, nodes and launches; never held in a CUPTI call
	Buffer *idle = nullptr, *full = nullptr, **fullEnd = &full;
	std::unordered_map<uint64_t, Launcher> nodes; // launchers of graph nodes, by CUPTI's number
	Outstanding outstanding;
	Buffer buffers[mostBuffers] = {};
	size_t buffersMade = 0, buffersOut = 0;
	// A kernel was launched since CUPTI returned a buffer; and since it requested one.
	std::atomic<bool> isLaunchedSinceReturn{false}, isLaunchedSinceRequest{false};
	std::atomic<unsigned> silence{0}; // rounds since then in which another client seemed to have the buffers

	std::atomic<const char *> failed{nullptr};
	std::atomic<int> failure{0};
	std::atomic<bool> isLeaving{false};
	std::atomic<bool> isRecording{false}, isSwitching{false}; // kinds are enabled; a thread is switching them
	sem_t wake;
	pthread_t helper;
	sigset_t signals;                         // blocked in the thread that started the collector
	bool hasHelper = false, isLogged = false; // isLogged: the failure was reported

	// Used by the helper, and by finish() after it ended.
	std::vector<KernelEvent> settled;
	KernelLosses losses;
	uint64_t seen = 0, invalid = 0;
	uint64_t dropped = 0;                                    // in total
	uint64_t clockCupti = 0, clockTrace = 0, clockFirst = 0; // one moment on both clocks; the first moment on CUPTI's
};
Collector *collector = nullptr; // made once, never destroyed: CUPTI's worker may call at any time

struct Locked {
	Locked() { pthread_mutex_lock(&collector->lock); }
	~Locked() { pthread_mutex_unlock(&collector->lock); }
};

// Stores the first reason to stop; the helper switches tracing off. failure: the CUPTI error of the function `why`, or
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
	const base::CallerState callerState;
	Buffer *buffer = nullptr;
	bool isScarce, isMade = false;
	{
		const Locked locked;
		if (collector->idle)
			buffer = std::exchange(collector->idle, collector->idle->next);
		else if (collector->buffersMade < mostBuffers) {
			Buffer &made = collector->buffers[collector->buffersMade++];
			made.data = static_cast<uint8_t *>(malloc(bufferSize));
			buffer = made.data ? &made : nullptr;
			isMade = true;
		}
		if (buffer)
			buffer->isOut = true;
		isScarce = buffer && ++collector->buffersOut == buffersToFlush;
	}
	if (isMade)
		collector->watchExit();
	if (isScarce)
		sem_post(&collector->wake);
	collector->isLaunchedSinceRequest.store(false, std::memory_order_relaxed);
	*data = buffer ? buffer->data : nullptr;
	*size = buffer ? bufferSize : 0;
	*maxRecords = 0; // as many as fit
}

// The buffer may belong to a client whose callbacks autoamp has replaced. Such a buffer must not be written or freed.
void CUPTIAPI completeBuffer(CUcontext, uint32_t, uint8_t *data, size_t, size_t valid)
{
	const base::CallerState callerState;
	{
		const Locked locked;
		Buffer *const end = collector->buffers + collector->buffersMade;
		Buffer *const buffer =
		    std::find_if(collector->buffers, end, [&](const Buffer &one) { return one.isOut && one.data == data; });
		if (!data || buffer == end)
			return;
		buffer->isOut = false;
		collector->buffersOut--;
		buffer->next = nullptr;
		buffer->valid = valid;
		*collector->fullEnd = buffer;
		collector->fullEnd = &buffer->next;
	}
	collector->silence = 0;
	collector->isLaunchedSinceReturn.store(false, std::memory_order_relaxed);
	collector->isLaunchedSinceRequest.store(false, std::memory_order_relaxed);
	sem_post(&collector->wake);
}

// Kernels were launched, and CUPTI requested or returned no buffer: another client may have registered its callbacks.
// A kernel that runs for long looks the same until a forced flush.
bool areBuffersTaken()
{
	const Locked locked;
	return collector->isLaunchedSinceReturn.load(std::memory_order_relaxed) &&
	       (collector->isLaunchedSinceRequest.load(std::memory_order_relaxed) ||
	        std::any_of(std::begin(collector->buffers), std::end(collector->buffers),
	                    [](const Buffer &one) { return one.isOut; }));
}

[[gnu::tls_model("global-dynamic")]] thread_local bool isNodeMade =
    false; // since the thread's latest launch function began

// Inside the call that adds a node to a graph, or copies a graph. No CUDA function may be called here.
void onNode(const CUpti_GraphData &graph, bool isClone)
{
	uint64_t node = 0, original = 0;
	if (!CALL(cuptiGetGraphNodeId, graph.node, &node))
		return;
	if (isClone && !CALL(cuptiGetGraphNodeId, graph.originalNode, &original))
		return;
	isNodeMade |= !isClone;
	Launcher launcher = isClone ? 0 : collector->current(true);
	const Locked locked;
	if (isClone) {
		const auto found = collector->nodes.find(original);
		if (found == collector->nodes.end()) // older than the collector
			return;
		launcher = found->second;
	}
	if (collector->nodes.size() < mostNodes)
		collector->nodes[node] = launcher;
}

enum class Work { kernel, graph, copy };

Work workOf(CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
	const bool isRuntime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
	const CUpti_CallbackId *const launches = isRuntime ? runtimeLaunches : driverLaunches;
	const size_t number = static_cast<size_t>(
	    std::find(launches, launches + (isRuntime ? std::size(runtimeLaunches) : std::size(driverLaunches)), id) -
	    launches);
	const size_t firstGraph = isRuntime ? firstRuntimeGraph : firstDriverGraph;
	return number < firstGraph ? Work::kernel : number < firstGraph + 2 ? Work::graph : Work::copy;
}

// Called when a function that launches work begins or ends. The work has the same correlation number. For a stream that
// is being captured, the function launches nothing.
void onLaunch(CUpti_CallbackDomain domain, CUpti_CallbackId id, const CUpti_CallbackData &call)
{
	if (call.callbackSite == CUPTI_API_ENTER) {
		const bool isRecording = collector->isRecording;
		*call.correlationData = 0;
		if (!isRecording && !collector->isSwitching)
			return;
		const Launcher launcher = collector->current(false);
		const Locked locked;
		if (!collector->outstanding.add(call.correlationId, launcher))
			return;
		*call.correlationData = isRecording && launcher != base::hiddenOwner ? 2 : 1;
		isNodeMade = false;
		return;
	}
	if (*call.correlationData == 0)
		return;
	const auto status = static_cast<const int *>(call.functionReturnValue); // cudaError_t or CUresult
	if (isNodeMade || (status && *status)) {
		Launcher launcher;
		const Locked locked;
		collector->outstanding.take(call.correlationId, launcher);
		return;
	}
	const Work work = workOf(domain, id);
	if (*call.correlationData == 1 || work == Work::copy)
		return;
	std::atomic<uint64_t> &count = work == Work::graph ? collector->counters->graphs : collector->counters->launched;
	if (count.fetch_add(1, std::memory_order_relaxed) == 0)
		collector->watchExit();
	for (std::atomic<bool> *const flag : {&collector->isLaunchedSinceReturn, &collector->isLaunchedSinceRequest})
		if (!flag->load(std::memory_order_relaxed))
			flag->store(true, std::memory_order_relaxed);
}

void CUPTIAPI onEvent(void *, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	if (!isOn.load(std::memory_order_relaxed))
		return;
	const base::CallerState callerState;
	if (domain == CUPTI_CB_DOMAIN_RESOURCE)
		onNode(*static_cast<const CUpti_GraphData *>(static_cast<const CUpti_ResourceData *>(data)->resourceDescriptor),
		       id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
	else
		onLaunch(domain, id, *static_cast<const CUpti_CallbackData *>(data));
}

// ---- records

// Returns whether the launcher is known. A kernel of a graph belongs to the launcher of its node, not to that of the
// graph.
bool findLauncher(uint32_t correlation, uint64_t node, Launcher &launcher)
{
	const Locked locked;
	const bool isOutstanding = collector->outstanding.take(correlation, launcher);
	if (!node)
		return isOutstanding;
	if (isOutstanding) // the first kernel of this launch
		collector->counters->graphsReceived.fetch_add(1, std::memory_order_relaxed);
	const auto found = collector->nodes.find(node);
	if (found == collector->nodes.end())
		return false;
	launcher = found->second;
	return true;
}

template <class Record>
void add(const Record &record, const char *name, uint16_t flags)
{
	KernelEvent event;
	event.startNs = record.start;
	event.endNs = record.end;
	event.name = name ? name : "";
	event.stream = record.streamId;
	event.device = static_cast<uint16_t>(record.deviceId);
	event.flags = static_cast<uint16_t>(flags | (record.graphNodeId ? kernelGraph : 0) |
	                                    (collector->library.isEmulated ? kernelEmulated : 0));
	Launcher launcher = 0;
	const bool isKnown = findLauncher(record.correlationId, record.graphNodeId, launcher);
	if (!isKnown)
		launcher = 0;
	if (launcher == base::hiddenOwner)
		return;
	if (!(event.flags & (kernelGraph | kernelMemory)))
		collector->counters->received.fetch_add(1, std::memory_order_relaxed);
	collector->seen++;
	if (const uint32_t scaler = base::updatedBy(launcher)) {
		event.call = scaler;
		event.flags |= kernelUpdate;
		launcher = 0;
	} else {
		event.row = static_cast<RowId>(launcher >> 43 & (kRowLimit - 1));
		event.call = launcher & ((uint64_t{1} << 43) - 1);
		if (launcher & launcherOurs)
			event.flags |= kernelOurs;
	}
	if (isKnown ? !launcher : (event.flags & kernelMemory) != 0) // not all functions that copy are watched
		event.flags |= kernelOutside;
	else if (!isKnown)
		collector->losses.unattributed++;
	if (event.startNs < collector->clockFirst || event.endNs < event.startNs) {
		collector->losses.invalid++;
		collector->invalid++;
		event.startNs = event.endNs = 0;
	} else {
		const uint64_t start = event.startNs - collector->clockCupti + collector->clockTrace;
		event.endNs = start + (event.endNs - event.startNs);
		event.startNs = start;
	}
	collector->settled.push_back(event);
}

void read(const CUpti_Activity *activity)
{
	switch (activity->kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
		const auto &record = *reinterpret_cast<const KernelRecord *>(activity);
		add(record, record.name, 0);
		break;
	}
	case CUPTI_ACTIVITY_KIND_MEMCPY: {
		const auto &record = *reinterpret_cast<const MemoryRecord *>(activity);
		add(record, copyNames[record.copyKind < std::size(copyNames) ? record.copyKind : 0], kernelMemory);
		break;
	}
	case CUPTI_ACTIVITY_KIND_MEMSET:
		add(*reinterpret_cast<const MemoryRecord *>(activity), "[memset]", kernelMemory);
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

// If CUPTI permanently runs out of device memory for timestamps, its times are 0. The other records are then not worth
// their cost.
void watchTimes()
{
	if (collector->seen < 4096)
		return;
	if (collector->invalid * 10 > collector->seen)
		end("more than one in ten CUPTI timestamps is invalid", CUPTI_SUCCESS);
	collector->seen = collector->invalid = 0;
}

void setClock()
{
	uint64_t now = 0;
	if (!CALL(cuptiGetTimestamp, &now))
		return;
	collector->clockTrace = collector->recorder->clock(now);
	collector->clockCupti = now;
	if (!collector->clockFirst)
		collector->clockFirst = now;
}

void write()
{
	collector->recorder->kernels(collector->settled, collector->losses);
	collector->settled.clear();
	collector->losses = {};
}

// Reads all buffers that CUPTI has returned so far.
void consume()
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
		write();
		const Locked locked;
		buffers = std::exchange(buffers->next, std::exchange(collector->idle, buffers));
	}
	size_t dropped = 0;
	if (CALL(cuptiActivityGetNumDroppedRecords, nullptr, 0, &dropped) && dropped) {
		collector->dropped += dropped;
		collector->losses.dropped = dropped;
		write();
	}
	watchTimes();
}

// ---- life

CUptiResult watchLaunches(bool isWatched)
{
	CUptiResult first = CUPTI_SUCCESS;
	const auto set = [&](CUpti_CallbackDomain domain, CUpti_CallbackId launch) {
		const CUptiResult result =
		    collector->library.cuptiEnableCallback(isWatched, collector->subscriber, domain, launch);
		if (first == CUPTI_SUCCESS && result != CUPTI_ERROR_INVALID_PARAMETER) // this libcupti does not know the number
			first = result;
	};
	for (const CUpti_CallbackId launch : runtimeLaunches)
		set(CUPTI_CB_DOMAIN_RUNTIME_API, launch);
	for (const CUpti_CallbackId launch : driverLaunches)
		set(CUPTI_CB_DOMAIN_DRIVER_API, launch);
	return first;
}

// Disables kernels first: a kernel whose launch was not seen would be unattributed.
CUptiResult disable()
{
	CUptiResult first = CUPTI_SUCCESS;
	for (const CUpti_ActivityKind kind : kinds)
		if (const CUptiResult result = collector->library.cuptiActivityDisable(kind); first == CUPTI_SUCCESS)
			first = result;
	const CUptiResult result = watchLaunches(false);
	return first == CUPTI_SUCCESS ? result : first;
}

// Reverts start(). Errors are not reported.
void switchOff()
{
	isOn.store(false, std::memory_order_relaxed);
	if (const char *failed = collector->failed.load(); failed != buffersTaken && failed != nothingCame)
		disable();
	if (collector->subscriber)
		collector->library.cuptiUnsubscribe(std::exchange(collector->subscriber, nullptr));
}

void logDisabled(Recorder &recorder, const char *why)
{
	const bool isPart = collector && collector->counters && collector->counters->received.load() > 0;
	base::log(base::LogLevel::warn, "%s: %s", isPart ? "kernels are missing" : "kernels are not traced", why);
	recorder.note(noteOfKernels, why);
}

// Switches tracing off if there was a failure. Only the first such call has an effect.
void endIfFailed()
{
	if (!collector->failed.load() || std::exchange(collector->isLogged, true))
		return;
	switchOff();
	char text[160];
	if (const int failure = collector->failure)
		snprintf(text, sizeof text, "%s failed (%d)", collector->failed.load(), failure);
	else
		snprintf(text, sizeof text, "%s", collector->failed.load());
	logDisabled(*collector->recorder, text);
}

// Returns whether only this thread is alive. A main thread that called pthread_exit still has an entry.
bool isAlone()
{
	DIR *const tasks = opendir("/proc/self/task");
	if (!tasks)
		return false;
	bool isAlone = true;
	while (const dirent *const task = isAlone ? readdir(tasks) : nullptr) {
		if (task->d_name[0] == '.' || atoi(task->d_name) == gettid())
			continue;
		char path[64], text[512] = "";
		snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", task->d_name);
		const int file = open(path, O_RDONLY | O_CLOEXEC);
		const ssize_t size = file < 0 ? 0 : ::read(file, text, sizeof text - 1);
		if (file >= 0)
			close(file);
		const char *const state = size > 0 ? strrchr(text, ')') : nullptr; // the name may contain any character
		isAlone = file < 0 || (state && strlen(state) > 2 && strchr("ZX", state[2]));
	}
	closedir(tasks);
	return isAlone;
}

bool isScarce()
{
	const Locked locked;
	return collector->buffersOut >= buffersToFlush;
}

bool areBuffersLost()
{
	if (!areBuffersTaken() || ++collector->silence < roundsOfSilence)
		return false;
	CALL(cuptiActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	return collector->silence != 0; // 0: a buffer was returned
}

void *help(void *)
{
	timespec due;
	clock_gettime(CLOCK_REALTIME, &due);
	while (!collector->isLeaving && !collector->failed.load()) {
		const bool isTime = sem_timedwait(&collector->wake, &due) != 0;
		if (collector->isLeaving || collector->failed.load())
			break;
		if (isTime || isScarce()) { // complete buffers are returned now, the others later
			renew();
			CALL(cuptiActivityFlushAll, 0);
		}
		if (isTime) {
			setClock();
			clock_gettime(CLOCK_REALTIME, &due);
			due.tv_sec++;
			if (areBuffersLost())
				end(buffersTaken, CUPTI_SUCCESS);
		}
		consume();
		// The process lives until its last thread ends, so the helper must not outlive all others. libc calls the exit
		// handlers when it returns.
		if (isTime && isAlone()) {
			pthread_sigmask(SIG_SETMASK, &collector->signals, nullptr);
			return nullptr;
		}
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
		snprintf(why, sizeof why, "%s already uses CUPTI in this process; CUPTI supports one client",
		         *holder ? holder : "another tool");
	else if (result != CUPTI_SUCCESS)
		snprintf(why, sizeof why, "cuptiSubscribe failed (%d)", result);
	if (result != CUPTI_SUCCESS)
		collector->subscriber = nullptr;
	return result == CUPTI_SUCCESS;
}

bool enable()
{
	if (!isFine(watchLaunches(true), "cuptiEnableCallback"))
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

// The helper blocks all signals, so that it handles no signals of the application.
bool startHelper()
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &collector->signals);
	collector->hasHelper = pthread_create(&collector->helper, nullptr, help, nullptr) == 0;
	pthread_sigmask(SIG_SETMASK, &collector->signals, nullptr);
	return collector->hasHelper;
}

// Waits at exit for work on the device, as long as the device makes progress.
void awaitDevice()
{
	const LaunchRecord &counters = *collector->counters;
	const auto arrived = [&] { return counters.received + counters.graphsReceived + collector->dropped; };
	uint64_t progress = base::nanoseconds(CLOCK_MONOTONIC), before = collector->seen;
	for (;;) {
		CALL(cuptiActivityFlushAll, 0);
		consume();
		const uint64_t now = base::nanoseconds(CLOCK_MONOTONIC);
		if (collector->seen != before) {
			before = collector->seen;
			progress = now;
		}
		const bool isAll = arrived() >= counters.launched + counters.graphs;
		const uint64_t patience = !isAll ? patienceNs : counters.graphs ? graphTailNs : 0;
		if (collector->failed.load() || now - progress >= patience)
			return;
		usleep(2000);
	}
}

} // namespace

constinit std::atomic<bool> isOn{false};

void start(Recorder &recorder, const char *path, Launcher (*current)(bool isNode), bool (*isWanted)(),
           void (*watchExit)())
{
	char why[160] = "no memory";
	auto *made = new Collector;
	made->recorder = &recorder;
	made->current = current;
	made->isWanted = isWanted;
	made->watchExit = watchExit;
	made->counters = recorder.launches();
	sem_init(&made->wake, 0, 0);
	if (!made->counters || !loadCupti(path, made->library, why)) {
		logDisabled(recorder, why);
		return;
	}
	collector = made;
	if (!subscribe(why)) {
		logDisabled(recorder, why);
		return;
	}
	uint32_t version = 0;
	if (CALL(cuptiGetVersion, &version) && prepare()) {
		setClock();
		isOn.store(true, std::memory_order_release);
		renew();
		char text[24];
		snprintf(text, sizeof text, "%u", version);
		recorder.property("version", "cupti", text);
		recorder.kernels({}, {});
	}
	if (collector->failed.load() || !startHelper()) {
		end("cannot create a thread", CUPTI_SUCCESS);
		endIfFailed();
		return;
	}
	watchExit();
}

// Holds no lock while CUPTI is called. If another thread is switching, that thread checks again.
void renew()
{
	while (isOn.load(std::memory_order_acquire) && collector->isWanted() != collector->isRecording.load()) {
		if (collector->isSwitching.exchange(true))
			return;
		const bool isWanted = collector->isWanted();
		if (isWanted != collector->isRecording.load()) {
			if (isWanted)
				enable();
			collector->isRecording.store(isWanted); // a launch is counted only while its kernel is certainly recorded
			if (!isWanted)
				isFine(disable(), "cuptiActivityDisable");
		}
		collector->isSwitching.store(false);
	}
}

void finish()
{
	if (!collector || !collector->hasHelper)
		return;
	if (!pthread_equal(pthread_self(), collector->helper)) { // else: it was the last thread, see help()
		collector->isLeaving = true;
		sem_post(&collector->wake);
		timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += 5;
		if (pthread_timedjoin_np(collector->helper, nullptr, &until)) // it waits for CUPTI
			return;
	}
	collector->hasHelper = false;
	endIfFailed();
	if (collector->isLogged)
		return;
	isOn.store(false, std::memory_order_relaxed);
	for (const CUpti_ActivityKind kind : kinds)
		collector->library.cuptiActivityDisable(kind);
	awaitDevice();
	collector->silence = 1; // until a buffer is returned
	CALL(cuptiActivityFlushAll, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	setClock();
	consume();
	if (collector->silence && areBuffersTaken())
		end(nothingCame, CUPTI_SUCCESS);
	switchOff();
	endIfFailed();
}

void forget()
{
	isOn.store(false, std::memory_order_relaxed);
	if (collector)
		collector->hasHelper = false;
}

} // namespace autoamp::trace::cupti
