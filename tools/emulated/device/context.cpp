#include "core.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>

namespace emulated {
namespace {

constexpr int maximumDevices = 16;
std::atomic<bool> initialised{false};
Context *const primaries = new Context[maximumDevices]; // never destroyed: workers outlive static objects
std::atomic<uint64_t> generations[maximumDevices];
std::unordered_set<const Context *> &created() // contexts of cuCtxCreate; under State::mutex
{
	static auto *all = new std::unordered_set<const Context *>;
	return *all;
}

// A number with an optional K, M or G. Returns `fallback` if the variable is unset; reports an invalid value on one
// line.
size_t numberFrom(const char *variable, size_t fallback)
{
	const char *text = getenv(variable);
	if (!text || !*text)
		return fallback;
	char *end = nullptr;
	size_t number = strtoull(text, &end, 10);
	const std::string unit = end;
	const int shift = unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : 0;
	if (end == text || (shift == 0 && !unit.empty())) {
		say("%s=%s is not a number (K, M and G are units)", variable, text);
		return fallback;
	}
	return number << shift;
}

constexpr struct {
	int attribute, value;
} attributes[] = {
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxBlockDimX, 1024},
    {cudaDevAttrMaxBlockDimY, 1024},
    {cudaDevAttrMaxBlockDimZ, 64},
    {cudaDevAttrMaxGridDimX, 2147483647},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrMaxSharedMemoryPerBlock, 48 * 1024},
    {cudaDevAttrTotalConstantMemory, 64 * 1024},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrMaxPitch, 2147483647},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrClockRate, 1980000},
    {cudaDevAttrTextureAlignment, 512},
    {cudaDevAttrTexturePitchAlignment, 32},
    {cudaDevAttrGpuOverlap, 1},
    {cudaDevAttrMultiProcessorCount, 132},
    {cudaDevAttrCanMapHostMemory, 1},
    {cudaDevAttrConcurrentKernels, 1},
    {cudaDevAttrMemoryClockRate, 2619000},
    {cudaDevAttrGlobalMemoryBusWidth, 5120},
    {cudaDevAttrL2CacheSize, 50 * 1024 * 1024},
    {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
    {cudaDevAttrAsyncEngineCount, 3},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrComputeCapabilityMajor, 9},
    {cudaDevAttrComputeCapabilityMinor, 0},
    {cudaDevAttrStreamPrioritiesSupported, 1},
    {cudaDevAttrGlobalL1CacheSupported, 1},
    {cudaDevAttrLocalL1CacheSupported, 1},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 228 * 1024},
    {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
    {cudaDevAttrManagedMemory, 1},
    {cudaDevAttrConcurrentManagedAccess, 1},
    {cudaDevAttrComputePreemptionSupported, 1},
    {cudaDevAttrCanUseHostPointerForRegisteredMem, 1},
    {cudaDevAttrCooperativeLaunch, 0},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, 227 * 1024},
    {cudaDevAttrHostRegisterSupported, 1},
    {cudaDevAttrMaxBlocksPerMultiprocessor, 32},
    {cudaDevAttrReservedSharedMemoryPerBlock, 1024},
    {cudaDevAttrMemoryPoolsSupported, 1},
};

void afterForkInChild()
{
	// The child has no workers, and locks may be held: from here on every call must fail.
	forked = initialised.load();
}

} // namespace

const char *const deviceName = "autoamp emulated (h100 constants)";

std::atomic<bool> forked{false};
constinit thread_local Thread *currentThread = nullptr;

// A thread may call a function after its thread-local objects were destroyed, as atexit handlers do. It then gets a new
// Thread.
Thread &newThread()
{
	currentThread = new Thread;
	thread_local struct Owner {
		~Owner()
		{
			delete currentThread;
			currentThread = nullptr;
		}
	} owner;
	(void)owner;
	return *currentThread;
}

int deviceCount()
{
	static const int count = int(std::min<size_t>(numberFrom("AUTOAMP_EMU_DEVICES", 2), maximumDevices));
	return count;
}

int driverVersion()
{
	static const int version = int(numberFrom("AUTOAMP_EMU_DRIVER", CUDART_VERSION));
	return version;
}

size_t deviceMemory()
{
	static const size_t bytes =
	    numberFrom("AUTOAMP_EMU_MEMORY", size_t(sysconf(_SC_PHYS_PAGES)) * size_t(sysconf(_SC_PAGE_SIZE)) / 4);
	return bytes;
}

bool isUsable()
{
	return initialize() == cudaSuccess;
}

cudaError_t deviceAttribute(int *value, int attribute, int device)
{
	if (const cudaError_t error = initialize())
		return error;
	if (device < 0 || device >= deviceCount())
		return cudaErrorInvalidDevice;
	if (!value || attribute <= 0 || attribute >= cudaDevAttrMax)
		return cudaErrorInvalidValue;
	if (attribute == cudaDevAttrPciBusId) {
		*value = device + 1;
		return cudaSuccess;
	}
	*value = 0; // attributes that are not in the table are 0
	if (attribute == cudaDevAttrMemoryPoolsSupported && mustFail("CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED"))
		return cudaSuccess;
	for (const auto &row : attributes)
		if (row.attribute == attribute)
			*value = row.value;
	return cudaSuccess;
}

cudaError_t initialize()
{
	if (hasForked())
		return cudaErrorInitializationError;
	if (deviceCount() == 0)
		return cudaErrorNoDevice;
	static std::once_flag once;
	std::call_once(once, [] {
		pthread_atfork(nullptr, nullptr, afterForkInChild);
		for (int device = 0; device < deviceCount(); ++device) {
			primaries[device].device = device;
			primaries[device].primary = true;
			primaries[device].pool = primaries[device].defaultPool = createPool(device, 0);
		}
		initialised = true;
	});
	return cudaSuccess;
}

bool isInitialized()
{
	return initialised;
}

Context *primaryContext(int device)
{
	return device >= 0 && device < deviceCount() ? &primaries[device] : nullptr;
}

static void open(Context &context) // with the lock held
{
	if (context.alive)
		return;
	context.alive = true;
	context.sticky = 0;
	context.id = ++state().ids;
	context.legacy = std::make_shared<Stream>();
	context.legacy->context = &context;
	context.legacy->id = ++state().ids;
}

// The runtime retains its primary contexts like other clients, so that a release by another client does not end them.
static void retain(Context &context)
{
	if (!context.runtimes.exchange(true))
		++context.references;
}

void activate(Context &context)
{
	Lock lock(state().mutex);
	open(context);
}

bool isContext(const Context *context)
{
	if (context >= primaries && context < primaries + deviceCount())
		return true;
	Lock lock(state().mutex);
	return created().count(context);
}

Context *createContext(int device)
{
	Lock lock(state().mutex);
	auto *context = new Context;
	context->device = device;
	context->pool = primaries[device].pool;
	context->defaultPool = primaries[device].defaultPool;
	open(*context);
	created().insert(context);
	return context;
}

cudaError_t requireContext(Context **out)
{
	Thread &me = thread();
	if (me.driver) {
		if (!initialised)
			return cudaErrorInitializationError; // CUDA_ERROR_NOT_INITIALIZED has the same number
		if (me.contexts.empty() || !me.contexts.back())
			return cudaErrorDeviceUninitialized; // CUDA_ERROR_INVALID_CONTEXT
	} else if (me.contexts.empty() || !me.contexts.back()) {
		if (const cudaError_t error = setDevice(me.device))
			return error;
	}
	Context *context = me.contexts.back();
	if (!context->alive) {
		if (me.driver || !context->primary)
			return cudaErrorContextIsDestroyed;
		activate(*context);
		retain(*context);
	}
	*out = context;
	return cudaError_t(context->sticky.load());
}

cudaError_t setDevice(int device)
{
	if (const cudaError_t error = initialize())
		return error;
	if (device < 0 || device >= deviceCount())
		return cudaErrorInvalidDevice;
	Thread &me = thread();
	me.device = device;
	if (me.contexts.empty())
		me.contexts.push_back(nullptr);
	me.contexts.back() = &primaries[device];
	activate(primaries[device]);
	retain(primaries[device]);
	return cudaError_t(primaries[device].sticky.load());
}

cudaError_t teardown(Context &context)
{
	Lock lock(state().mutex);
	if (!context.alive)
		return cudaSuccess;
	State &all = state();
	context.cancelled = true;
	drain(lock, context);
	std::erase_if(all.captures, [&](const auto &capture) {
		if (capture->origin->context != &context)
			return false;
		capture->invalid = true;
		for (const auto &stream : std::exchange(capture->streams, {}))
			stream->capture.reset();
		return true;
	});
	std::erase_if(all.streams, [&](const auto &row) { return row.first->context == &context; });
	std::erase_if(all.events, [&](const auto &row) { return row.first->context == &context; });
	context.legacy.reset();
	context.peers = 0;
	context.references = 0;
	context.runtimes = false;
	context.alive = false;
	context.cancelled = false;
	if (context.primary)
		++generations[context.device];
	else
		created().erase(&context);
	lock.unlock();
	releaseAll(context);
	return cudaSuccess;
}

int currentDevice()
{
	const Thread &me = thread();
	return me.contexts.empty() || !me.contexts.back() ? me.device : me.contexts.back()->device;
}

cudaError_t stickyError()
{
	const Thread &me = thread();
	const Context *context = me.contexts.empty() ? nullptr : me.contexts.back();
	return context && context->alive ? cudaError_t(context->sticky.load()) : cudaSuccess; // a reset clears the error
}

uint64_t deviceGeneration(int device)
{
	return device >= 0 && device < maximumDevices ? generations[device].load() : 0;
}

} // namespace emulated
