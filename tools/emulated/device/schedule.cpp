#include "core.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <pthread.h>

// Streams are lazy queues. Work runs when a thread waits for it, directly or through events, or after the delay
// `reluctance`. Work without an ordering event or synchronisation therefore reads old bytes in every run. A few workers
// serve all streams. A worker ends after `patience` without work, so that a process whose main thread has ended
// (pthread_exit) can end too.
namespace emulated {
namespace {

constexpr auto reluctance = std::chrono::milliseconds(25), patience = std::chrono::milliseconds(100);
constexpr unsigned workersLeast = 2, workersMost = 128;

bool isRunnable(const Stream &stream)
{
	if (stream.running || stream.demanded == 0)
		return false;
	const auto &waits = stream.queue.front()->waits;
	return std::all_of(waits.begin(), waits.end(), [](const OpPointer &op) { return op->done; });
}

void work();

// Starts a worker for ready streams if necessary. Workers in host functions do not count: a program may hold a stream
// by a host function that blocks forever.
void staff()
{
	State &all = state();
	if (all.idle < all.ready.size() && all.workers < std::min(workersMost, workersLeast + all.inHost)) {
		++all.workers;
		std::thread(work).detach();
	}
}

void makeReady(Stream &stream)
{
	if (!isRunnable(stream))
		return;
	State &all = state();
	stream.running = true;
	all.ready.push_back(stream.shared_from_this());
	staff();
	all.work.notify_one();
}

void execute(Op &op)
{
	Context &context = *op.stream->context;
	if (context.sticky || context.cancelled)
		return;
	Thread &me = thread();
	me.running = &op;
	me.illegal = false;
	cudaError_t error = op.body ? runWatched(op.type, op.name, op.body, 0) : cudaSuccess;
	me.running = nullptr;
	if (me.illegal)
		error = cudaErrorIllegalAddress;
	int none = cudaSuccess;
	if (error)
		context.sticky.compare_exchange_strong(none, error);
}

void complete(Op &op)
{
	State &all = state();
	Stream &stream = *op.stream;
	op.done = true;
	op.finished = Clock::now();
	op.waits.clear();
	stream.running = false;
	--stream.demanded;
	stream.queue.pop_front();
	if (stream.queue.empty())
		stream.context->busy.erase(&stream);
	for (const auto &other : op.wakes)
		makeReady(*other);
	op.wakes.clear();
	makeReady(stream);
	all.finished.notify_all();
}

void work()
{
	// Signals are blocked, so that the program's handlers do not run on this thread. Faults are not blocked.
	sigset_t signals;
	sigfillset(&signals);
	for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
		sigdelset(&signals, fault);
	pthread_sigmask(SIG_BLOCK, &signals, nullptr);
	State &all = state();
	Lock lock(all.mutex);
	for (;;) {
		if (!all.ready.empty()) {
			const auto stream = std::move(all.ready.front());
			all.ready.pop_front();
			const OpPointer op = stream->queue.front();
			all.inHost += op->host;
			staff();
			lock.unlock();
			execute(*op);
			op->body = nullptr; // may release the last references to its arguments
			lock.lock();
			all.inHost -= op->host;
			complete(*op);
			continue;
		}
		while (!all.lazy.empty() && (all.leaving || all.lazy.front()->done || all.lazy.front()->demanded))
			all.lazy.pop_front();
		if (!all.lazy.empty() && all.lazy.front()->due <= Clock::now()) {
			demand(all.lazy.front());
			continue;
		}
		++all.idle;
		if (all.leaving)
			all.finished.notify_all();
		const Clock::time_point until = all.lazy.empty() ? Clock::now() + patience : all.lazy.front()->due;
		const bool isLate = all.work.wait_until(lock, until) == std::cv_status::timeout;
		--all.idle;
		if (isLate && all.lazy.empty() && all.ready.empty()) {
			--all.workers;
			all.finished.notify_all(); // leave() counts workers
			return;
		}
	}
}

// Runs at process exit. From now on work starts only if a destructor of the program waits for it, so that no work runs
// in libraries that are being destroyed.
void leave()
{
	if (hasForked())
		return;
	State &all = state();
	Lock lock(all.mutex);
	all.leaving = true;
	all.finished.wait_for(lock, std::chrono::seconds(1), [&] { return all.idle + all.inHost >= all.workers; });
}

template <class Map, class Handle>
auto *known(Map &map, Handle handle)
{
	const auto found = map.find(reinterpret_cast<typename Map::key_type>(handle));
	return found == map.end() ? nullptr : found->first;
}

Event *eventOf(cudaEvent_t handle)
{
	return known(state().events, handle);
}

} // namespace

State &state()
{
	static auto *all = new State;
	return *all;
}

OnStream::OnStream(cudaStream_t handle) : error(requireContext(&current))
{
	if (error)
		return;
	lock = Lock(state().mutex);
	error = resolve(handle, &stream);
}

cudaError_t resolve(cudaStream_t handle, Stream **out)
{
	Thread &me = thread();
	if (handle == nullptr)
		handle = me.perThreadDefault ? cudaStreamPerThread : cudaStreamLegacy;
	if (handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
		Context *context = me.contexts.empty() ? nullptr : me.contexts.back();
		if (!context || !context->alive)
			return cudaErrorDeviceUninitialized;
		if (handle == cudaStreamLegacy) {
			*out = context->legacy.get();
		} else {
			auto &own = me.perThread[context->id];
			if (!own) {
				own = std::make_shared<Stream>();
				own->context = context;
				own->id = ++state().ids;
			}
			*out = own.get();
		}
	} else {
		*out = known(state().streams, handle);
		if (!*out)
			return cudaErrorInvalidResourceHandle;
	}
	return cudaError_t((*out)->context->sticky.load());
}

OpPointer enqueue(Stream &stream, const char *name, Body body, bool host, std::vector<OpPointer> waits)
{
	State &all = state();
	static const int registered = atexit(leave);
	(void)registered;
	auto op = std::make_shared<Op>();
	op->stream = stream.shared_from_this();
	op->name = name;
	op->body = std::move(body);
	op->host = host;
	op->sequence = ++all.sequence;
	op->due = Clock::now() + reluctance;
	Context &context = *stream.context;
	if (stream.isLegacy()) {
		for (const Stream *other : context.busy)
			if (other != &stream && other->isBlocking())
				waits.push_back(other->queue.back());
	} else if (stream.isBlocking() && !context.legacy->queue.empty()) {
		waits.push_back(context.legacy->queue.back());
	}
	std::erase_if(waits, [](const OpPointer &wait) { return !wait || wait->done; });
	for (const OpPointer &wait : waits)
		wait->wakes.push_back(op->stream);
	op->waits = std::move(waits);
	stream.queue.push_back(op);
	context.busy.insert(&stream);
	if (all.workers == 0) {
		++all.workers;
		std::thread(work).detach();
	}
	if (all.lazy.empty())
		all.work.notify_one();
	all.lazy.push_back(op);
	return op;
}

void demand(const OpPointer &wanted)
{
	std::vector<OpPointer> open{wanted};
	while (!open.empty()) {
		const OpPointer op = open.back();
		open.pop_back();
		if (op->done || op->demanded)
			continue;
		Stream &stream = *op->stream;
		do { // also all earlier work of its stream
			const OpPointer &next = stream.queue[stream.demanded++];
			next->demanded = true;
			open.insert(open.end(), next->waits.begin(), next->waits.end());
		} while (!op->demanded);
		makeReady(stream);
	}
}

void wait(Lock &lock, const OpPointer &op)
{
	demand(op);
	// As in the real libraries, a wait must not be a cancellation point. Unwinding would skip the return of a status,
	// and would end the process at a noexcept frame.
	int before = PTHREAD_CANCEL_ENABLE;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	state().finished.wait(lock, [&] { return op->done; });
	pthread_setcancelstate(before, nullptr);
}

void drain(Lock &lock, Context &context)
{
	std::vector<OpPointer> last;
	for (const Stream *stream : context.busy)
		last.push_back(stream->queue.back());
	for (const OpPointer &op : last)
		demand(op);
	for (const OpPointer &op : last)
		wait(lock, op);
}

std::atomic<const Watcher *> watcher{nullptr};

static uint64_t realTime()
{
	timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return uint64_t(now.tv_sec) * 1'000'000'000 + uint64_t(now.tv_nsec);
}

cudaError_t runWatched(cudaGraphNodeType type, const char *name, const Body &body, uint64_t node)
{
	const Watcher *const watching = watcher;
	const bool isWork =
	    type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy || type == cudaGraphNodeTypeMemset;
	if (!watching || !isWork)
		return body();
	const uint64_t start = realTime();
	const cudaError_t error = body();
	const Op &op = *thread().running;
	watching->ran({type, name, op.stream->context->device, op.stream->context->id, op.stream->id, op.launched, node,
	               start, realTime()});
	return error;
}

cudaError_t finish(const OpPointer &op)
{
	if (!op) // the work was added to a graph
		return cudaSuccess;
	Lock lock(state().mutex);
	wait(lock, op);
	return cudaError_t(op->stream->context->sticky.load());
}

cudaError_t submitOp(cudaStream_t handle, const char *name, cudaGraphNodeType type, Body body, OpPointer *out,
                     uint64_t fixed)
{
	ON_STREAM(handle);
	if (stream->capture)
		return addNode(*stream, name, type, std::move(body), fixed);
	if (const cudaError_t error = guardLegacy(*stream))
		return error;
	OpPointer op = enqueue(*stream, name, std::move(body), type == cudaGraphNodeTypeHost);
	op->type = type;
	if (const Watcher *watching = watcher)
		op->launched = watching->launched(type, thread().driver);
	if (out)
		*out = std::move(op);
	return cudaSuccess;
}

cudaError_t submit(cudaStream_t stream, const char *name, Body body)
{
	return submitOp(stream, name, cudaGraphNodeTypeKernel, std::move(body));
}

cudaError_t launchHost(cudaStream_t stream, std::function<void()> callback)
{
	return submitOp(stream, "host function", cudaGraphNodeTypeHost, [callback = std::move(callback)] {
		Thread &me = thread();
		const bool before = std::exchange(me.callback, true);
		callback();
		me.callback = before;
		return cudaSuccess;
	});
}

// ---- streams

cudaError_t createStream(cudaStream_t *out, unsigned flags, int priority)
{
	Context *context = nullptr;
	if (const cudaError_t error = requireContext(&context))
		return error;
	if (!out || (flags & ~unsigned(cudaStreamNonBlocking)))
		return cudaErrorInvalidValue;
	Lock lock(state().mutex);
	auto stream = std::make_shared<Stream>();
	stream->context = context;
	stream->id = ++state().ids;
	stream->flags = flags;
	stream->priority = std::clamp(priority, -5, 0);
	*out = reinterpret_cast<cudaStream_t>(stream.get());
	state().streams.emplace(stream.get(), stream);
	return cudaSuccess;
}

cudaError_t destroyStream(cudaStream_t handle)
{
	Lock lock(state().mutex);
	Stream *stream = known(state().streams, handle);
	if (!stream)
		return cudaErrorInvalidResourceHandle;
	if (stream->capture)
		invalidate(*stream->capture, cudaErrorStreamCaptureInvalidated);
	state().streams.erase(stream); // queued work keeps the object and still runs
	return cudaSuccess;
}

cudaError_t streamFacts(cudaStream_t handle, StreamFacts *facts)
{
	ON_STREAM(handle);
	*facts = {stream->context, stream->context->device, stream->id, stream->flags, stream->priority};
	return cudaSuccess;
}

cudaError_t refuseCaptured(cudaStream_t handle)
{
	ON_STREAM(handle);
	return stream->capture ? invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

int deviceOf(cudaStream_t handle)
{
	StreamFacts facts;
	return streamFacts(handle, &facts) ? currentDevice() : facts.context->device;
}

cudaError_t synchronize(cudaStream_t handle)
{
	ON_STREAM(handle);
	if (stream->capture)
		return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
	if (const cudaError_t error = refuseUnsafe())
		return error;
	if (const cudaError_t error = guardLegacy(*stream))
		return error;
	Context &context = *stream->context;
	// The legacy stream waits for all blocking streams, even if its own queue is empty.
	OpPointer last = stream->isLegacy()      ? enqueue(*stream, "synchronize", nullptr)
	                 : stream->queue.empty() ? nullptr
	                                         : stream->queue.back();
	if (last)
		wait(on.lock, last);
	on.lock.unlock();
	trimPools(context.device);
	return cudaError_t(context.sticky.load());
}

cudaError_t queryStream(cudaStream_t handle)
{
	ON_STREAM(handle);
	if (stream->capture)
		return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
	if (const cudaError_t error = refuseUnsafe())
		return error;
	if (const cudaError_t error = guardLegacy(*stream))
		return error;
	bool pending = false;
	for (const Stream *other : stream->context->busy)
		if (other == stream || (stream->isLegacy() && other->isBlocking())) {
			demand(other->queue.back());
			pending = true;
		}
	return pending ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t synchronizeContext()
{
	Context *context = nullptr;
	if (const cudaError_t error = requireContext(&context))
		return error;
	Lock lock(state().mutex);
	cudaError_t refused = cudaSuccess;
	for (const auto &capture : state().captures)
		if (capture->origin->context == context)
			refused = invalidate(*capture, cudaErrorStreamCaptureUnsupported);
	if (refused)
		return refused;
	drain(lock, *context);
	lock.unlock();
	trimPools(context->device);
	return cudaError_t(context->sticky.load());
}

cudaError_t drainDevice(int device)
{
	Context &context = *primaryContext(device);
	Lock lock(state().mutex);
	drain(lock, context);
	return cudaError_t(context.sticky.load());
}

// ---- events

cudaError_t createEvent(cudaEvent_t *out, unsigned flags)
{
	Context *context = nullptr;
	if (const cudaError_t error = requireContext(&context))
		return error;
	if (!out || flags & ~unsigned(cudaEventBlockingSync | cudaEventDisableTiming))
		return flags & cudaEventInterprocess ? cudaErrorNotSupported : cudaErrorInvalidValue;
	auto event = std::make_unique<Event>();
	event->context = context;
	event->flags = flags;
	Lock lock(state().mutex);
	*out = reinterpret_cast<cudaEvent_t>(event.get());
	state().events.emplace(event.get(), std::move(event));
	return cudaSuccess;
}

cudaError_t destroyEvent(cudaEvent_t handle)
{
	Lock lock(state().mutex);
	Event *event = eventOf(handle);
	if (!event)
		return cudaErrorInvalidResourceHandle;
	state().events.erase(event);
	return cudaSuccess;
}

cudaError_t recordEvent(cudaEvent_t handle, cudaStream_t streamHandle, unsigned flags)
{
	ON_STREAM(streamHandle);
	Event *event = eventOf(handle);
	if (flags)
		return flags == cudaEventRecordExternal ? cudaErrorNotSupported : cudaErrorInvalidValue;
	if (!event || event->context != stream->context)
		return cudaErrorInvalidResourceHandle;
	if (const auto capture = stream->capture) {
		if (capture->invalid)
			return cudaErrorStreamCaptureInvalidated;
		event->capture = capture;
		event->frontier = stream->frontier;
		event->op.reset();
		return cudaSuccess;
	}
	if (const cudaError_t error = guardLegacy(*stream))
		return error;
	event->capture.reset();
	event->frontier.clear();
	event->op = enqueue(*stream, "event record", nullptr);
	return cudaSuccess;
}

cudaError_t waitEvent(cudaStream_t streamHandle, cudaEvent_t handle, unsigned flags)
{
	ON_STREAM(streamHandle);
	Event *event = eventOf(handle);
	if (flags)
		return flags == cudaEventWaitExternal ? cudaErrorNotSupported : cudaErrorInvalidValue;
	if (!event)
		return cudaErrorInvalidResourceHandle;
	if (event->capture || stream->capture)
		return joinCapture(*stream, *event);
	if (const cudaError_t error = guardLegacy(*stream))
		return error;
	if (event->op && !event->op->done)
		enqueue(*stream, "event wait", nullptr, false, {event->op});
	return cudaSuccess;
}

// Locks, and sets `op` to the event's pending work. Returns an error if the event must not be queried.
static cudaError_t pendingOf(cudaEvent_t handle, Lock &lock, OpPointer *op, Context **context)
{
	if (const cudaError_t error = requireContext(context))
		return error;
	lock = Lock(state().mutex);
	const Event *event = eventOf(handle);
	if (!event)
		return cudaErrorInvalidResourceHandle;
	if (event->capture)
		return event->capture->origin ? invalidate(*event->capture, cudaErrorCapturedEvent) : cudaErrorCapturedEvent;
	*op = event->op && !event->op->done ? event->op : nullptr;
	*context = event->context;
	return cudaError_t(event->context->sticky.load());
}

cudaError_t queryEvent(cudaEvent_t handle)
{
	OpPointer op;
	Context *context = nullptr;
	Lock lock;
	if (const cudaError_t error = pendingOf(handle, lock, &op, &context))
		return error;
	if (const cudaError_t error = refuseUnsafe())
		return error;
	if (!op)
		return cudaSuccess;
	demand(op);
	return cudaErrorNotReady;
}

cudaError_t synchronizeEvent(cudaEvent_t handle)
{
	OpPointer op;
	Context *context = nullptr;
	Lock lock;
	if (const cudaError_t error = pendingOf(handle, lock, &op, &context))
		return error;
	if (op)
		wait(lock, op);
	lock.unlock();
	trimPools(context->device);
	return cudaError_t(context->sticky.load());
}

cudaError_t elapsedTime(float *milliseconds, cudaEvent_t startHandle, cudaEvent_t endHandle)
{
	Lock lock(state().mutex);
	const Event *start = eventOf(startHandle), *end = eventOf(endHandle);
	if (!milliseconds)
		return cudaErrorInvalidValue;
	if (!start || !end || !start->op || !end->op || (start->flags | end->flags) & cudaEventDisableTiming)
		return cudaErrorInvalidResourceHandle;
	if (!start->op->done || !end->op->done) {
		demand(start->op);
		demand(end->op);
		return cudaErrorNotReady;
	}
	*milliseconds = std::chrono::duration<float, std::milli>(end->op->finished - start->op->finished).count();
	return cudaSuccess;
}

// ---- stream-ordered memory

cudaError_t allocateAsync(void **out, size_t bytes, Pool *pool, cudaStream_t handle)
{
	ON_STREAM(handle);
	if (!out)
		return cudaErrorInvalidValue;
	if (bytes == 0) {
		*out = nullptr;
		return cudaSuccess;
	}
	Context &context = *stream->context;
	const bool captured = stream->capture != nullptr;
	const auto kind = captured ? Allocation::Graph : Allocation::Device;
	if (!pool)
		pool = context.pool;
	void *base = nullptr;
	cudaError_t error = allocate(context, bytes, kind, captured ? nullptr : pool, false, 0, &base, stream);
	if (error == cudaErrorMemoryAllocation && !captured && !stream->queue.empty()) {
		wait(on.lock, stream->queue.back()); // the stream may contain frees
		error = allocate(context, bytes, kind, pool, false, 0, &base, stream);
	}
	if (error)
		return error;
	if (captured) { // lives as long as the graph and its executable copies
		const std::shared_ptr<void> held(base, [](void *old) { release(old); });
		*out = base;
		return addNode(*stream, "allocation", cudaGraphNodeTypeMemAlloc, [held] {
			reachAllocation(held.get());
			return cudaSuccess;
		});
	}
	if (!(error = guardLegacy(*stream)))
		enqueue(*stream, "allocation", [base] {
			reachAllocation(base);
			return cudaSuccess;
		});
	if (error)
		release(base);
	else
		*out = base;
	return error;
}

cudaError_t freeAsync(void *base, cudaStream_t handle)
{
	ON_STREAM(handle);
	if (!base)
		return cudaSuccess;
	const auto one = findAllocation(base);
	if (!one || one->base != uintptr_t(base))
		return cudaErrorInvalidValue;
	if (stream->capture) {
		if (one->kind != Allocation::Graph)
			return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
		return addNode(*stream, "free", cudaGraphNodeTypeMemFree, [base] {
			retire(base);
			return cudaSuccess;
		});
	}
	if (const cudaError_t error = guardLegacy(*stream))
		return error;
	const bool reused = one->kind == Allocation::Graph; // the graph may be launched again
	if (!reused && !markFreed(base, state().sequence + 1, stream))
		return cudaErrorInvalidValue;
	enqueue(*stream, "free", [base, reused] {
		if (reused)
			retire(base);
		else
			release(base);
		return cudaSuccess;
	});
	return cudaSuccess;
}

static cudaError_t freeKind(void *base, bool host)
{
	Context *current = nullptr;
	if (const cudaError_t error = requireContext(&current))
		return error;
	if (!base)
		return cudaSuccess;
	if (const cudaError_t error = unsafeCall())
		return error;
	const auto one = findAllocation(base);
	const bool ours = one && one->kind != Allocation::Registered && one->kind != Allocation::Mapped;
	if (!ours || one->base != uintptr_t(base) || (one->kind == Allocation::Pinned) != host)
		return cudaErrorInvalidValue;
	// As on hardware, a free waits for the device. The caller must order accesses to memory of a pool.
	if (!one->pool) {
		Lock lock(state().mutex);
		drain(lock, *one->context);
	} else if (!markFreed(base, 0, nullptr)) {
		return cudaErrorInvalidValue;
	}
	return release(base);
}

cudaError_t freeNow(void *base)
{
	return freeKind(base, false);
}

cudaError_t freeHostNow(void *base)
{
	return freeKind(base, true);
}

} // namespace emulated
