// The internal interface of the emulated device, for its own files and the cudart and cuda fronts; other fronts use
// device.h. Any thread may call the functions. State::mutex guards the structs unless a comment differs.
#pragma once

#include "device.h"
#include "watch.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace emulated {

using Clock = std::chrono::steady_clock;

struct Capture;
struct Graph;
struct Kernel;
struct Op;
struct Program;
struct Stream;

// ---- contexts (context.cpp). A device has one primary context object for the lifetime of the process. After a reset
// it has the same address and another id, as on hardware; programs that use the address as a key then fail.

struct Context {
	int device = 0;
	bool primary = false;
	std::atomic<bool> alive{false};
	std::atomic<unsigned long long> id{0};
	std::atomic<unsigned> references{0}; // those of cuDevicePrimaryCtxRetain and of the runtime
	std::atomic<bool> runtimes{false};   // the runtime holds one of them, until a reset
	std::atomic<int> sticky{0};          // the error that broke the context
	std::atomic<bool> cancelled{false};  // during teardown: queued work is dropped
	std::shared_ptr<Stream> legacy;      // the default stream
	std::unordered_set<Stream *> busy;   // streams with queued work, destroyed ones included
	std::atomic<unsigned> peers{0};      // bits of the devices whose memory kernels of this context may access
	struct Pool *pool = nullptr, *defaultPool = nullptr;
};

// The state of one thread. Plain thread-local data: only its own thread reads it.
struct Thread {
	bool perThreadDefault = false; // inside a _ptsz or _ptds function: stream 0 is the per-thread stream
	bool driver = false;           // inside a driver API function: contexts are not created implicitly
	bool callback = false;         // inside a host function or a user object's destructor: CUDA calls fail
	bool illegal = false;          // the running kernel received an invalid pointer
	int device = 0;                // device of cudaSetDevice
	cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
	cudaError_t last = cudaSuccess;
	std::vector<Context *> contexts;
	const Op *running = nullptr;
	std::unordered_map<unsigned long long, std::shared_ptr<Stream>> perThread; // by context id
};
extern constinit thread_local Thread *currentThread __attribute__((tls_model("initial-exec")));
Thread &newThread();
inline Thread &thread()
{
	return currentThread ? *currentThread : newThread();
}

int deviceCount();
size_t deviceMemory(); // bytes per device
extern const char *const deviceName;
cudaError_t deviceAttribute(int *value, int attribute, int device);
cudaError_t initialize(); // cuInit
bool isInitialized();
cudaError_t requireContext(Context **context); // the thread's context, created in runtime calls; returns its sticky
                                               // error
cudaError_t setDevice(int device);             // cudaSetDevice
Context *primaryContext(int device);           // also if it is not alive
void activate(Context &);                      // takes the lock itself
cudaError_t teardown(Context &);               // drops its work, memory, streams and events
bool isContext(const Context *);
Context *createContext(int device);
extern std::atomic<bool> forked; // true in a child of a process that used the device
inline bool hasForked()
{
	return forked.load(std::memory_order_relaxed);
}

// ---- counters and faults (entry.cpp)

// One exported function: counts its calls and decides whether a call must fail. Constant-initialised, so that a child
// forked at any moment can use it.
class Entry
{
public:
	constexpr explicit Entry(const char *entryName) : name(entryName) {}
	// cudaSuccess, or the error that the call must return without any other effect.
	cudaError_t begin()
	{
		if (hasForked()) [[unlikely]]
			return cudaErrorInitializationError;
		if (!enrolled_.load(std::memory_order_acquire)) [[unlikely]]
			enrol();
		const unsigned long call = calls.fetch_add(1, std::memory_order_relaxed) + 1;
		if (thread().callback) [[unlikely]]
			return misused();
		return call == failing_ ? failure_ : cudaSuccess;
	}

	const char *const name;
	std::atomic<unsigned long> calls{0};

private:
	void enrol();
	static cudaError_t misused();

	std::atomic<bool> enrolled_{false};
	cudaError_t failure_ = cudaSuccess; // the documented failure of the function
	unsigned long failing_ = 0;         // number of the call that fails; 0: none
};
Entry &entryOf(const char *name);

// ---- memory (memory.cpp); its tables have a separate lock, which is taken after State::mutex

struct Pool {
	int device = 0;
	size_t reserved = 0, used = 0, reservedHigh = 0, usedHigh = 0, maximum = 0;
	uint64_t threshold = 0;
	int flags[3] = {1, 1, 1}; // reuse policies: follow event dependencies, opportunistic, internal dependencies
	unsigned access = 0;      // bits of the other devices whose kernels may access it
	// By stream. freed: bytes whose free the stream has not yet reached; an allocation on that stream may reuse them at
	// once. takenOver: bytes reused in this way; their free does not return them again.
	std::unordered_map<const void *, size_t> freed, takenOver;
};

struct Allocation {
	enum Kind { Device, Graph, Mapped, Pinned, Managed, Registered }; // host access is forbidden for kinds up to Mapped
	uintptr_t base = 0;
	size_t bytes = 0;
	Kind kind = Device;
	Context *context = nullptr;
	Pool *pool = nullptr;
	uint64_t id = 0;
	uint64_t freedAt = ~uint64_t{0}; // work submitted from this number on must not access it
	const void *freedOn = nullptr;   // the stream that frees it
	bool ready = true;               // false until the stream reaches the allocation
	unsigned flags = 0;              // flags of the host allocation
	unsigned access = 0;             // for mappings: bits of the devices that may access it
	const void *physical = nullptr;  // the physical memory that is mapped here
	uintptr_t range = 0;             // first page of its range; the range includes the guard page
	size_t rangeBytes = 0;
};

inline bool onDevice(Allocation::Kind kind)
{
	return kind <= Allocation::Mapped;
}

cudaError_t allocate(Context &, size_t bytes, Allocation::Kind, Pool *, bool ready, unsigned flags, void **out,
                     const void *stream = nullptr);
cudaError_t registerHost(Context &, void *address, size_t bytes, unsigned flags);
cudaError_t unregisterHost(void *address);
std::optional<Allocation> findAllocation(const void *address); // the allocation that contains the address
cudaError_t release(const void *base);                         // without waiting for the stream
void releaseAll(Context &);
void reachAllocation(void *base); // when the stream reaches the allocation: fills the pages and opens them
void retire(void *base);          // graph memory: closes the pages, keeps the address
bool markFreed(void *base, uint64_t sequence, const void *stream);
bool isDevicePointer(const void *address);
void *anyView(const void *address, size_t bytes); // view() for copies, which need no peer access
void memoryInfo(int device, size_t *free, size_t *total);
void trimPools(int device); // at synchronisation: shrinks pools to their release thresholds
Pool *createPool(int device, size_t maximum);
cudaError_t destroyPool(Pool *);
bool isPool(const Pool *);
void trimPool(Pool &, size_t keep);
cudaError_t poolAttribute(Pool *, int attribute, void *value, bool set);
cudaError_t poolAccess(Pool *, const cudaMemAccessDesc *, size_t count);
// Applies `count` changes to the bits of the devices that may access memory.
cudaError_t changeAccess(unsigned *devices, const cudaMemAccessDesc *, size_t count);

// ---- memory mapped at addresses that the program chooses (mapping.cpp)

constexpr size_t mappingGrain = size_t{2} << 20;
cudaError_t createPhysical(const void **handle, size_t bytes, int device);
cudaError_t releasePhysical(const void *handle);
cudaError_t reserveAddresses(void **, size_t bytes, size_t alignment);
cudaError_t freeAddresses(void *, size_t bytes);
cudaError_t mapMemory(void *, size_t bytes, size_t offset, const void *handle);
cudaError_t unmapMemory(void *, size_t bytes);
cudaError_t mappingAccess(void *, size_t bytes, const cudaMemAccessDesc *, size_t count);

// ---- streams, events (schedule.cpp)

struct Op {
	std::shared_ptr<Stream> stream;
	const char *name = "";
	Body body;
	bool host = false, demanded = false, done = false;
	cudaGraphNodeType type = cudaGraphNodeTypeEmpty; // for the watcher, with the number of the launch
	Launched launched;
	uint64_t sequence = 0;
	Clock::time_point due, finished;
	std::vector<std::shared_ptr<Op>> waits;
	std::vector<std::shared_ptr<Stream>> wakes; // streams that may continue when this work is done
};
using OpPointer = std::shared_ptr<Op>;

// The data of edges that are not full dependencies (programmatic launches), by source node. Full dependencies are
// absent.
struct Node;
using Edges = std::map<const Node *, cudaGraphEdgeData>;

struct Node {
	cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
	const char *name = "";
	Body body;
	uint64_t fixed = 0;              // properties that an update of an executable graph must not change
	std::shared_ptr<Program> inside; // the child graph of a child node
	std::vector<Node *> after;
	Edges edges; // data of the edges in `after`
	size_t index = 0;
	uint64_t number = 0; // unique among all nodes of the process
};

struct Stream : std::enable_shared_from_this<Stream> {
	Context *context = nullptr;
	unsigned long long id = 0;
	unsigned flags = 0;
	int priority = 0;
	bool running = false; // a worker runs its first op, or the stream is in the ready list
	size_t demanded = 0;  // number of ops at the front of the queue for which a thread waits
	std::deque<OpPointer> queue;
	std::shared_ptr<Capture> capture;
	std::vector<Node *> frontier;         // predecessors of the next captured node
	Edges edges;                          // data of the edges from `frontier`
	std::vector<cudaGraphEdgeData> given; // edge data of the last query, which the client may read

	bool isBlocking() const { return !(flags & cudaStreamNonBlocking); }
	bool isLegacy() const { return context->legacy.get() == this; }
};

struct Event {
	Context *context = nullptr;
	unsigned flags = 0;
	OpPointer op;
	std::shared_ptr<Capture> capture;
	std::vector<Node *> frontier;
};

// Never destroyed: workers may outlive the program's destructors.
struct State {
	std::mutex mutex;
	std::condition_variable work, finished;
	std::unordered_map<Stream *, std::shared_ptr<Stream>> streams;
	std::unordered_map<Event *, std::unique_ptr<Event>> events;
	std::list<std::shared_ptr<Capture>> captures; // active captures
	std::deque<std::shared_ptr<Stream>> ready;
	std::deque<OpPointer> lazy; // submitted ops for which no thread waits yet
	uint64_t sequence = 0;
	unsigned long long ids = 0;
	unsigned workers = 0, idle = 0, inHost = 0;
	bool leaving = false;
};
State &state();
using Lock = std::unique_lock<std::mutex>;

// The start of most functions: finds the thread's context and the handle's stream and takes the lock, or sets `error`.
struct OnStream {
	explicit OnStream(cudaStream_t handle);
	Context *current = nullptr;
	Stream *stream = nullptr;
	Lock lock;
	cudaError_t error;
};

// Defines `on` and `stream`, or returns the error.
#define ON_STREAM(handle)                                                                                              \
	OnStream on(handle);                                                                                               \
	Stream *const stream = on.stream;                                                                                  \
	if (on.error)                                                                                                      \
	return on.error

// With the lock held:
cudaError_t resolve(cudaStream_t handle, Stream **stream); // also for default streams; returns sticky errors
OpPointer enqueue(Stream &, const char *name, Body body, bool host = false, std::vector<OpPointer> waits = {});
void demand(const OpPointer &);
void wait(Lock &, const OpPointer &);
void drain(Lock &, Context &);
cudaError_t guardLegacy(Stream &); // fails if the legacy stream is used while a blocking stream is captured

// Takes the lock itself. Like submit(), with options that only the fronts need: host functions, and the work to wait
// for.
cudaError_t submitOp(cudaStream_t, const char *name, cudaGraphNodeType, Body body, OpPointer *op = nullptr,
                     uint64_t fixed = 0);
// Runs one piece of work and reports it to the watcher.
cudaError_t runWatched(cudaGraphNodeType, const char *name, const Body &, uint64_t node);
cudaError_t finish(const OpPointer &); // waits; returns the context's error
cudaError_t createStream(cudaStream_t *, unsigned flags, int priority);
cudaError_t destroyStream(cudaStream_t);
cudaError_t queryStream(cudaStream_t);
cudaError_t synchronizeContext();
cudaError_t drainDevice(int device); // waits for all work of the device's primary context
cudaError_t waitEvent(cudaStream_t, cudaEvent_t, unsigned flags);
cudaError_t createEvent(cudaEvent_t *, unsigned flags);
cudaError_t destroyEvent(cudaEvent_t);
cudaError_t recordEvent(cudaEvent_t, cudaStream_t, unsigned flags);
cudaError_t queryEvent(cudaEvent_t);
cudaError_t synchronizeEvent(cudaEvent_t);
cudaError_t elapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end);
cudaError_t launchHost(cudaStream_t, std::function<void()>);
cudaError_t allocateAsync(void **, size_t bytes, Pool *, cudaStream_t);
cudaError_t freeAsync(void *, cudaStream_t);
cudaError_t freeNow(void *);     // cudaFree
cudaError_t freeHostNow(void *); // cudaFreeHost
// The stream of a handle on this thread, and its properties.
struct StreamFacts {
	Context *context;
	int device;
	unsigned long long id;
	unsigned flags;
	int priority;
};
cudaError_t streamFacts(cudaStream_t, StreamFacts *);
cudaError_t refuseCaptured(cudaStream_t); // refuses a query that the capture of a stream forbids, and invalidates it

// ---- capture, graphs (graph.cpp)

struct Capture {
	std::shared_ptr<Graph> graph;
	unsigned long long id = 0;
	cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
	std::thread::id thread;
	Stream *origin = nullptr;
	bool invalid = false;
	std::vector<std::shared_ptr<Stream>> streams;
};

// Checks a potentially unsafe call. If the thread's capture mode forbids it, returns an error and invalidates the
// captures concerned.
cudaError_t unsafeCall();
// With the lock held.
cudaError_t refuseUnsafe(); // like unsafeCall()
cudaError_t addNode(Stream &, const char *name, cudaGraphNodeType, Body, uint64_t fixed = 0);
cudaError_t joinCapture(Stream &, Event &);
cudaError_t invalidate(Capture &, cudaError_t);

struct CaptureFacts {
	cudaStreamCaptureStatus status;
	unsigned long long id;
	cudaGraph_t graph;
	const cudaGraphNode_t *dependencies;
	const cudaGraphEdgeData *edges; // null: all are full dependencies
	size_t count;
};
cudaError_t captureFacts(cudaStream_t, CaptureFacts *);
// The same in the form of cudaStreamGetCaptureInfo; all pointers may be null.
cudaError_t giveCapture(cudaStream_t, cudaStreamCaptureStatus *, unsigned long long *id, cudaGraph_t *,
                        const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *count);
cudaError_t beginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t captureTo(cudaStream_t, cudaGraph_t, const cudaGraphNode_t *after, const cudaGraphEdgeData *, size_t count,
                      cudaStreamCaptureMode);
cudaError_t endCapture(cudaStream_t, cudaGraph_t *);
cudaError_t updateCapture(cudaStream_t, cudaGraphNode_t *, const cudaGraphEdgeData *, size_t count, unsigned flags);
cudaError_t exchangeMode(cudaStreamCaptureMode *);
cudaError_t createGraph(cudaGraph_t *);
cudaError_t destroyGraph(cudaGraph_t);
cudaError_t cloneGraph(cudaGraph_t *, cudaGraph_t);
cudaError_t takeWork(cudaGraph_t to, cudaGraph_t from); // copies the work of each node
cudaError_t graphNodes(cudaGraph_t, cudaGraphNode_t *, size_t *count);
cudaError_t giveRootNodes(cudaGraph_t, cudaGraphNode_t *, size_t *count);
cudaError_t nodeDependencies(cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *count);
cudaError_t giveDependents(cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *count);
cudaError_t removeDependencies(cudaGraph_t, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                               const cudaGraphEdgeData *, size_t count);
cudaError_t nodeType(cudaGraphNode_t, cudaGraphNodeType *);
cudaError_t addEmptyNode(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *after, size_t count);
cudaError_t addChildNode(cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *after, size_t count, cudaGraph_t child);
cudaError_t giveChildGraph(cudaGraphNode_t, cudaGraph_t *);
cudaError_t setExecChild(cudaGraphExec_t, cudaGraphNode_t, cudaGraph_t child);
cudaError_t instantiate(cudaGraphExec_t *, cudaGraph_t);
cudaError_t updateExec(cudaGraphExec_t, cudaGraph_t, cudaGraphExecUpdateResultInfo *);
cudaError_t destroyExec(cudaGraphExec_t);
cudaError_t launchGraph(cudaGraphExec_t, cudaStream_t);
cudaError_t createUserObject(cudaUserObject_t *, void *, cudaHostFn_t destroy, unsigned count, unsigned flags);
cudaError_t retainUserObject(cudaUserObject_t, unsigned count);
cudaError_t releaseUserObject(cudaUserObject_t, unsigned count);
cudaError_t graphRetain(cudaGraph_t, cudaUserObject_t, unsigned count, unsigned flags);
cudaError_t graphRelease(cudaGraph_t, cudaUserObject_t, unsigned count);

// ---- copies (copy.cpp)

struct Rectangle {
	void *to;
	size_t toPitch;
	const void *from;
	size_t fromPitch, width, height;
};
cudaError_t copy(const Rectangle &, cudaMemcpyKind, cudaStream_t, bool async);
struct Fill {
	void *to;
	size_t pitch;
	unsigned value, unit; // unit: 1, 2 or 4 bytes
	size_t width, height; // in units; in rows
};
cudaError_t fill(const Fill &, cudaStream_t, bool async);

// ---- kernels (function.cpp)

// One kernel name: the object behind CUkernel, CUfunction and cudaKernel_t handles. Lives as long as the process.
struct Function {
	std::string name;
	const Kernel *kernel = nullptr;   // null: no plug-in has the kernel
	const Context *context = nullptr; // set if the function belongs to one context; else it runs in that of the stream
	std::atomic<int> dynamicShared{48 * 1024};
	std::atomic<bool> isRefused{false};    // at its lookup or at a launch, because there is no kernel
	std::atomic<unsigned long> refused{0}; // launches without a kernel that were not yet reported
};
Function *functionNamed(const char *name); // created at first use; loads the plug-ins
bool isFunction(const Function *);
cudaError_t functionOfContext(Function **, Function *kernel); // the function of this kernel in the current context
struct Configuration {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
};
cudaError_t launchKernel(Function *, const Configuration &, void **arguments);
cudaError_t kernelParameter(Function *, size_t index, size_t *offset, size_t *size); // `size` may be null
cudaError_t functionAttribute(Function *, int attribute, int *value); // `attribute`: numbers of CUfunction_attribute
cudaError_t setFunctionAttribute(Function *, int attribute, int value);
cudaError_t occupancy(int *blocks, int blockSize, size_t shared);
// A library or module with all kernels of the plug-ins.
cudaError_t loadLibrary(void **library, bool isForeign = false); // foreign: without code for the device
int driverVersion(); // CUDA version of the driver, 13000: AUTOAMP_EMU_DRIVER
// Success if a fat binary, a cubin or PTX text contains code for this device that the driver can read
// (image.cpp).
cudaError_t checkImage(const void *image);
bool isForeignCubin(const void *image); // for another architecture
cudaError_t unloadLibrary(void *library);
cudaError_t libraryKernel(void **function, void *library, const char *name);

} // namespace emulated

// For tests: number of calls of an exported function, and number of forbidden CUDA calls in callbacks.
extern "C" unsigned long autoamp_emulated_calls(const char *name);
using RefusalWatcher = void(const char *name, unsigned long launches);
extern "C" void autoamp_emulated_watch_refused(RefusalWatcher *watcher);
extern "C" unsigned long autoamp_emulated_misuses();
