// The inside of the emulated device: what its own files and the cudart and cuda fronts share; other fronts use
// device.h. Any thread may call the functions; the structs are guarded by State::mutex unless a comment says otherwise.
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

// ---- contexts (context.cpp). A device's primary context is one object for ever: after a reset it comes back at the
// same address with another id, as on hardware, so that a client which keys by pointer is found out.

struct Context {
	int device = 0;
	bool primary = false;
	std::atomic<bool> alive{false};
	std::atomic<unsigned long long> id{0};
	std::atomic<unsigned> references{0}; // cuDevicePrimaryCtxRetain, and the runtime's own
	std::atomic<bool> runtimes{false};   // the runtime's own is among them: until a reset
	std::atomic<int> sticky{0};          // what broke it
	std::atomic<bool> cancelled{false};  // being torn down: queued work is dropped
	std::shared_ptr<Stream> legacy;      // the default stream
	std::unordered_set<Stream *> busy;   // streams with queued work, destroyed ones included
	std::atomic<unsigned> peers{0};      // bits of the devices whose memory kernels here may touch
	struct Pool *pool = nullptr, *defaultPool = nullptr;
};

// What one thread is doing. Plain thread-local data: only its own thread reads it.
struct Thread {
	bool perThreadDefault = false; // inside a _ptsz/_ptds entry: stream 0 means the per-thread one
	bool driver = false;           // inside a driver API entry: no context is made implicitly
	bool callback = false;         // inside a host function or a user object's destructor: no CUDA calls
	bool illegal = false;          // the running kernel was given a bad pointer
	int device = 0;                // cudaSetDevice
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
size_t deviceMemory(); // bytes of one device
extern const char *const deviceName;
cudaError_t deviceAttribute(int *value, int attribute, int device);
cudaError_t initialize(); // cuInit
bool isInitialized();
cudaError_t requireContext(Context **context); // the thread's, made for the runtime; its sticky error
cudaError_t setDevice(int device);             // cudaSetDevice
Context *primaryContext(int device);           // alive or not
void activate(Context &);                      // takes the lock
cudaError_t teardown(Context &);               // drops its work, memory, streams and events
bool isContext(const Context *);
Context *createContext(int device);
extern std::atomic<bool> forked; // in a child of a process that used the device
inline bool hasForked()
{
	return forked.load(std::memory_order_relaxed);
}

// ---- counters and faults (entry.cpp)

// One exported function: counts its calls and says whether this one must fail. Constant-initialised, so that a child
// forked at any moment can still ask.
class Entry
{
public:
	constexpr explicit Entry(const char *entryName) : name(entryName) {}
	// cudaSuccess, or what the call must answer without doing anything.
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
	cudaError_t failure_ = cudaSuccess; // its documented failure
	unsigned long failing_ = 0;         // which call fails; 0: none
};
Entry &entryOf(const char *name);

// ---- memory (memory.cpp); its tables have a lock of their own, taken after State::mutex

struct Pool {
	int device = 0;
	size_t reserved = 0, used = 0, reservedHigh = 0, usedHigh = 0, maximum = 0;
	uint64_t threshold = 0;
	int flags[3] = {1, 1, 1}; // reuse policies: follow event dependencies, opportunistic, internal dependencies
	unsigned access = 0;      // bits of the other devices whose kernels may touch it
	// By stream: bytes freed there and not yet reached, which an allocation there may take over at once; and bytes so
	// taken over, which their free gives back no more.
	std::unordered_map<const void *, size_t> freed, takenOver;
};

struct Allocation {
	enum Kind { Device, Graph, Mapped, Pinned, Managed, Registered }; // up to Mapped: not for the host to touch
	uintptr_t base = 0;
	size_t bytes = 0;
	Kind kind = Device;
	Context *context = nullptr;
	Pool *pool = nullptr;
	uint64_t id = 0;
	uint64_t freedAt = ~uint64_t{0}; // work submitted from here on may not touch it
	const void *freedOn = nullptr;   // the stream of the free
	bool ready = true;               // false until the stream reaches the allocation
	unsigned flags = 0;              // of the host allocation
	unsigned access = 0;             // of a mapping: bits of the devices that may touch it
	const void *physical = nullptr;  // what is mapped there
	uintptr_t range = 0;             // pages behind it, guard included
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
std::optional<Allocation> findAllocation(const void *address); // that contains the address
cudaError_t release(const void *base);                         // at once
void releaseAll(Context &);
void reachAllocation(void *base); // the stream is there: fills it and opens it
void retire(void *base);          // graph memory: poisons and closes it, keeps the address
bool markFreed(void *base, uint64_t sequence, const void *stream);
bool isDevicePointer(const void *address);
void *anyView(const void *address, size_t bytes); // view() for copies: peers need no permission
void memoryInfo(int device, size_t *free, size_t *total);
void trimPools(int device); // at synchronisation: down to the release thresholds
Pool *createPool(int device, size_t maximum);
cudaError_t destroyPool(Pool *);
bool isPool(const Pool *);
void trimPool(Pool &, size_t keep);
cudaError_t poolAttribute(Pool *, int attribute, void *value, bool set);
cudaError_t poolAccess(Pool *, const cudaMemAccessDesc *, size_t count);
// Which devices may touch memory after `count` changes of it.
cudaError_t changeAccess(unsigned *devices, const cudaMemAccessDesc *, size_t count);

// ---- memory that is mapped at addresses of the program's choice (mapping.cpp)

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
	cudaGraphNodeType type = cudaGraphNodeTypeEmpty; // for who watches, with the launch's number
	Launched launched;
	uint64_t sequence = 0;
	Clock::time_point due, finished;
	std::vector<std::shared_ptr<Op>> waits;
	std::vector<std::shared_ptr<Stream>> wakes; // streams that may go on when this is done
};
using OpPointer = std::shared_ptr<Op>;

// Edges that are more than a full dependency (programmatic launches), by the node that they come from. The others are
// not in it.
struct Node;
using Edges = std::map<const Node *, cudaGraphEdgeData>;

struct Node {
	cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
	const char *name = "";
	Body body;
	uint64_t fixed = 0;              // what an update of an executable graph may not change
	std::shared_ptr<Program> inside; // of a child graph
	std::vector<Node *> after;
	Edges edges; // of `after`
	size_t index = 0;
	uint64_t number = 0; // of all nodes there ever were
};

struct Stream : std::enable_shared_from_this<Stream> {
	Context *context = nullptr;
	unsigned long long id = 0;
	unsigned flags = 0;
	int priority = 0;
	bool running = false; // its head is with a worker or on the ready list
	size_t demanded = 0;  // how many of the queue, from the front, somebody waits for
	std::deque<OpPointer> queue;
	std::shared_ptr<Capture> capture;
	std::vector<Node *> frontier;         // what the next captured node comes after
	Edges edges;                          // of the frontier
	std::vector<cudaGraphEdgeData> given; // the last answer about them, which is the client's to read

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

// Never destroyed: workers may outlive the program's own destructors.
struct State {
	std::mutex mutex;
	std::condition_variable work, finished;
	std::unordered_map<Stream *, std::shared_ptr<Stream>> streams;
	std::unordered_map<Event *, std::unique_ptr<Event>> events;
	std::list<std::shared_ptr<Capture>> captures; // under way
	std::deque<std::shared_ptr<Stream>> ready;
	std::deque<OpPointer> lazy; // submitted, nobody waits yet
	uint64_t sequence = 0;
	unsigned long long ids = 0;
	unsigned workers = 0, idle = 0, inHost = 0;
	bool leaving = false;
};
State &state();
using Lock = std::unique_lock<std::mutex>;

// How most functions begin: with the thread's context, the lock and the stream behind a handle, or with what is wrong.
struct OnStream {
	explicit OnStream(cudaStream_t handle);
	Context *current = nullptr;
	Stream *stream = nullptr;
	Lock lock;
	cudaError_t error;
};

// With the lock held:
cudaError_t resolve(cudaStream_t handle, Stream **stream); // default streams included; sticky errors
OpPointer enqueue(Stream &, const char *name, Body body, bool host = false, std::vector<OpPointer> waits = {});
void demand(const OpPointer &);
void wait(Lock &, const OpPointer &);
void drain(Lock &, Context &);
cudaError_t guardLegacy(Stream &); // using the legacy stream while a blocking stream is captured

// Takes the lock. As submit(), with what only the fronts need: host functions, and the work to wait for.
cudaError_t submitOp(cudaStream_t, const char *name, cudaGraphNodeType, Body body, OpPointer *op = nullptr,
                     uint64_t fixed = 0);
// Runs one piece of work and tells whoever watches.
cudaError_t runWatched(cudaGraphNodeType, const char *name, const Body &, uint64_t node);
cudaError_t finish(const OpPointer &); // waits; the context's error
cudaError_t createStream(cudaStream_t *, unsigned flags, int priority);
cudaError_t destroyStream(cudaStream_t);
cudaError_t queryStream(cudaStream_t);
cudaError_t synchronizeContext();
cudaError_t drainDevice(int device); // all work on its primary context
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
// What the thread's stream handle means, with what can be asked of it.
struct StreamFacts {
	Context *context;
	int device;
	unsigned long long id;
	unsigned flags;
	int priority;
};
cudaError_t streamFacts(cudaStream_t, StreamFacts *);

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

// A potentially unsafe call: refused, and the captures concerned invalidated, as the thread's capture mode asks.
cudaError_t unsafeCall();
// With the lock held.
cudaError_t refuseUnsafe(); // the same
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
// The same as cudaStreamGetCaptureInfo gives it out; any pointer may be null.
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
cudaError_t takeWork(cudaGraph_t to, cudaGraph_t from); // what each node does
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
	size_t width, height; // in units, in rows
};
cudaError_t fill(const Fill &, cudaStream_t, bool async);

// ---- kernels (function.cpp)

// One kernel name: what CUkernel, CUfunction and cudaKernel_t are handles of. Lives as long as the process.
struct Function {
	std::string name;
	const Kernel *kernel = nullptr; // none: no plug-in knows it
	std::atomic<int> dynamicShared{48 * 1024};
	std::atomic<bool> isRefused{false};    // at its lookup or at a launch, because there is no kernel
	std::atomic<unsigned long> refused{0}; // launches without a kernel that were not yet reported
};
Function *functionNamed(const char *name); // made when first asked for; loads the plug-ins
bool isFunction(const Function *);
struct Configuration {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
};
cudaError_t launchKernel(Function *, const Configuration &, void **arguments);
cudaError_t functionAttribute(Function *, int attribute, int *value); // numbers of CUfunction_attribute
cudaError_t setFunctionAttribute(Function *, int attribute, int value);
cudaError_t occupancy(int *blocks, int blockSize, size_t shared);
// A library or module of whatever the plug-ins know.
cudaError_t loadLibrary(void **library);
// Whether a fat binary, a cubin or PTX text holds code for this device (image.cpp).
cudaError_t checkImage(const void *image);
cudaError_t unloadLibrary(void *library);
cudaError_t libraryKernel(void **function, void *library, const char *name);

} // namespace emulated

// How often an exported function was called, and how often a callback called CUDA although it may not: for tests.
extern "C" unsigned long autoamp_emulated_calls(const char *name);
using RefusalWatcher = void(const char *name, unsigned long launches);
extern "C" void autoamp_emulated_watch_refused(RefusalWatcher *watcher);
extern "C" unsigned long autoamp_emulated_misuses();
