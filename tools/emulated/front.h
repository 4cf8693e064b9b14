// The common part of the cudart and the cuda front. Any thread.
#pragma once

#include "device/core.h"

#include <cstdio>

namespace emulated {

struct ErrorName {
	int number;
	const char *name;
};

// Sets the kind of the current call in the thread's state, and restores it at the end of the call.
class CallScope
{
public:
	CallScope(bool driver, bool perThread) : me_(thread()), driver_(me_.driver), perThread_(me_.perThreadDefault)
	{
		me_.driver = driver;
		me_.perThreadDefault = perThread;
	}
	~CallScope()
	{
		me_.driver = driver_;
		me_.perThreadDefault = perThread_;
	}
	CallScope(const CallScope &) = delete;

private:
	Thread &me_;
	const bool driver_, perThread_;
};

// A readable text for an error number; runtime and driver share the numbers. Null if neither has the number.
inline const char *errorText(const ErrorName *names, int number)
{
	static constexpr ErrorName texts[] = {
	    {0, "no error"},
	    {1, "invalid argument"},
	    {2, "out of memory"},
	    {3, "initialization error"},
	    {4, "driver shutting down"},
	    {9, "invalid configuration argument"},
	    {12, "invalid pitch argument"},
	    {21, "invalid copy direction for memcpy"},
	    {98, "invalid device function"},
	    {100, "no CUDA-capable device is detected"},
	    {101, "invalid device ordinal"},
	    {201, "invalid device context"},
	    {400, "invalid resource handle"},
	    {401, "the operation cannot be performed in the present state"},
	    {500, "named symbol not found"},
	    {600, "device not ready"},
	    {700, "an illegal memory access was encountered"},
	    {701, "too many resources requested for launch"},
	    {704, "peer access is already enabled"},
	    {705, "peer access has not been enabled"},
	    {709, "context is destroyed"},
	    {712, "part or all of the requested memory range is already mapped"},
	    {713, "pointer does not correspond to a registered memory region"},
	    {719, "unspecified launch failure"},
	    {800, "operation not permitted"},
	    {801, "operation not supported"},
	    {900, "operation not permitted when stream is capturing"},
	    {901, "operation failed due to a previous error during capture"},
	    {902, "operation would result in a merge of separate capture sequences"},
	    {903, "capture was not initiated in this stream"},
	    {904, "capturing stream has unjoined work"},
	    {905, "dependency created on uncaptured work in another stream"},
	    {906, "operation would make the legacy stream depend on a capturing blocking stream"},
	    {907, "operation not permitted on an event last recorded in a capturing stream"},
	    {908, "attempt to terminate a thread-local capture sequence from another thread"},
	    {999, "unknown error"},
	};
	for (const auto &row : texts)
		if (row.number == number)
			return row.name;
	for (const ErrorName *row = names; row->name; ++row)
		if (row->number == number)
			return row->name;
	return nullptr;
}

inline const char *errorName(const ErrorName *names, int number)
{
	for (const ErrorName *row = names; row->name; ++row)
		if (row->number == number)
			return row->name;
	return nullptr;
}

template <class Out, class Value>
cudaError_t give(Out *out, Value value)
{
	if (!out)
		return cudaErrorInvalidValue;
	*out = Out(value);
	return cudaSuccess;
}

// ---- functions that forwards.txt names in addition to the core's

// Converts vendor types to core types; driver.h converts those that only cuda.h defines.
template <class Type>
Type core(Type value)
{
	return value;
}
inline void *core(unsigned long long address) // CUdeviceptr
{
	return reinterpret_cast<void *>(address);
}
#define CORE_TYPE(Vendor, Core)                                                                                        \
	inline Core *core(Vendor *value)                                                                                   \
	{                                                                                                                  \
		return reinterpret_cast<Core *>(value);                                                                        \
	}
CORE_TYPE(CUmemPoolHandle_st, Pool)
CORE_TYPE(CUkern_st, Function)
CORE_TYPE(CUfunc_st, Function)

inline cudaError_t ready()
{
	Context *context = nullptr;
	return requireContext(&context);
}

inline cudaError_t checkDevice(int device)
{
	const cudaError_t error = initialize();
	return error ? error : primaryContext(device) ? cudaSuccess : cudaErrorInvalidDevice;
}

inline cudaError_t giveText(char *out, int length, int device, const char *text)
{
	if (const cudaError_t error = checkDevice(device))
		return error;
	if (!out || length <= 0)
		return cudaErrorInvalidValue;
	snprintf(out, size_t(length), "%s", text);
	return cudaSuccess;
}

inline cudaError_t giveName(char *out, int length, int device)
{
	return giveText(out, length, device, deviceName);
}

inline cudaError_t giveBusId(char *out, int length, int device)
{
	char text[16];
	snprintf(text, sizeof text, "0000:%02x:00.0", (device + 1) & 0xff);
	return length < 13 ? cudaErrorInvalidValue : giveText(out, length, device, text);
}

inline cudaError_t priorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return ready();
}

inline cudaError_t askPeer(int *can, int device, int peer)
{
	return checkDevice(device) || checkDevice(peer) ? cudaErrorInvalidDevice : give(can, device != peer);
}

inline cudaError_t changePeer(int peer, bool enable)
{
	Context *context = nullptr;
	if (const cudaError_t error = requireContext(&context))
		return error;
	if (checkDevice(peer) || peer == context->device)
		return cudaErrorInvalidDevice;
	const unsigned bit = 1u << peer, before = enable ? context->peers.fetch_or(bit) : context->peers.fetch_and(~bit);
	if (bool(before & bit) == enable)
		return enable ? cudaErrorPeerAccessAlreadyEnabled : cudaErrorPeerAccessNotEnabled;
	return cudaSuccess;
}

template <class Out>
cudaError_t devicePool(Out *out, int device, Pool *Context::*which)
{
	const cudaError_t error = checkDevice(device);
	return error ? error : give(out, primaryContext(device)->*which);
}

inline cudaError_t setDevicePool(int device, Pool *pool)
{
	if (const cudaError_t error = checkDevice(device))
		return error;
	if (!isPool(pool))
		return cudaErrorInvalidValue;
	primaryContext(device)->pool = pool;
	return cudaSuccess;
}

// Allocates memory at once. A request for 0 bytes succeeds in the runtime and fails in the driver.
template <class Out>
cudaError_t take(Out *out, size_t bytes, Allocation::Kind kind, unsigned flags)
{
	static_assert(sizeof(Out) == sizeof(void *));
	Context *context = nullptr;
	if (const cudaError_t error = requireContext(&context))
		return error;
	if (!out || (bytes == 0 && thread().driver))
		return cudaErrorInvalidValue;
	if (const cudaError_t error = unsafeCall())
		return error;
	*out = Out{};
	return bytes ? allocate(*context, bytes, kind, nullptr, true, flags, reinterpret_cast<void **>(out)) : cudaSuccess;
}

template <class Out>
cudaError_t takePitched(Out *out, size_t *pitch, size_t width, size_t height)
{
	if (!pitch)
		return cudaErrorInvalidValue;
	*pitch = (width + 511) / 512 * 512;
	return take(out, *pitch * height, Allocation::Device, 0);
}

template <class Out>
cudaError_t takeManaged(Out *out, size_t bytes, unsigned flags)
{
	if (bytes == 0 || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
		return cudaErrorInvalidValue;
	return take(out, bytes, Allocation::Managed, flags);
}

inline cudaError_t takePinned(void **out, size_t bytes, unsigned flags)
{
	constexpr unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
	return flags & ~known ? cudaErrorInvalidValue : take(out, bytes, Allocation::Pinned, flags);
}

inline cudaError_t registerHost(void *address, size_t bytes, unsigned flags)
{
	Context *context = nullptr;
	if (const cudaError_t error = requireContext(&context))
		return error;
	if (const cudaError_t error = unsafeCall())
		return error;
	return registerHost(*context, address, bytes, flags);
}

template <class Out>
cudaError_t hostDevicePointer(Out *out, void *address, unsigned flags)
{
	const auto one = findAllocation(address);
	if (flags || !one || (one->kind != Allocation::Pinned && one->kind != Allocation::Registered))
		return cudaErrorInvalidValue;
	return give(out, address);
}

inline cudaError_t hostFlags(unsigned *flags, void *address)
{
	const auto one = findAllocation(address);
	return one && one->kind == Allocation::Pinned ? give(flags, one->flags) : cudaErrorInvalidValue;
}

inline cudaError_t streamThere(cudaStream_t stream)
{
	StreamFacts facts;
	return streamFacts(stream, &facts);
}

// Advice, prefetches and attachment require managed memory.
inline cudaError_t managedThere(const void *address, size_t bytes)
{
	const auto one = findAllocation(address);
	if (!one || one->kind != Allocation::Managed || bytes > one->base + one->bytes - uintptr_t(address))
		return cudaErrorInvalidValue;
	return ready();
}

inline cudaError_t managedInStream(const void *address, size_t bytes, cudaStream_t stream)
{
	const cudaError_t error = managedThere(address, bytes);
	return error ? error : streamThere(stream);
}

inline cudaError_t memoryInfo(size_t *free, size_t *total)
{
	Context *context = nullptr;
	if (const cudaError_t error = requireContext(&context))
		return error;
	if (!free || !total)
		return cudaErrorInvalidValue;
	memoryInfo(context->device, free, total);
	return cudaSuccess;
}

template <class Out>
cudaError_t allocateInStream(Out *out, size_t bytes, cudaStream_t stream)
{
	if (bytes == 0 && thread().driver)
		return cudaErrorInvalidValue;
	return allocateAsync(reinterpret_cast<void **>(out), bytes, nullptr, stream);
}

template <class Out>
cudaError_t allocateFromPool(Out *out, size_t bytes, Pool *pool, cudaStream_t stream)
{
	if ((bytes == 0 && thread().driver) || !isPool(pool))
		return cudaErrorInvalidValue;
	return allocateAsync(reinterpret_cast<void **>(out), bytes, pool, stream);
}

template <class Properties>
cudaError_t createPoolLike(CUmemPoolHandle_st **out, const Properties *properties)
{
	if (!out || !properties || int(properties->location.type) != cudaMemLocationTypeDevice ||
	    int(properties->allocType) != cudaMemAllocationTypePinned)
		return cudaErrorInvalidValue;
	if (const cudaError_t error = checkDevice(properties->location.id))
		return error;
	const cudaError_t error = unsafeCall();
	return error ? error : give(out, createPool(properties->location.id, properties->maxSize));
}

inline cudaError_t trimPool(Pool *pool, size_t keep)
{
	if (!isPool(pool))
		return cudaErrorInvalidValue;
	if (const cudaError_t error = unsafeCall())
		return error;
	trimPool(*pool, keep);
	return cudaSuccess;
}

inline cudaError_t copyLine(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream,
                            bool async)
{
	return copy({to, bytes, from, bytes, bytes, 1}, kind, stream, async);
}

// Runs after all earlier work on both devices.
inline cudaError_t copyPeer(void *to, int toDevice, const void *from, int fromDevice, size_t bytes)
{
	for (const int device : {toDevice, fromDevice}) {
		if (checkDevice(device))
			return cudaErrorInvalidDevice;
		if (const cudaError_t error = drainDevice(device))
			return error;
	}
	return copyLine(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr, false);
}

inline cudaError_t fillArea(void *to, size_t pitch, unsigned value, unsigned unit, size_t width, size_t height,
                            cudaStream_t stream, bool async)
{
	return fill({to, pitch ? pitch : width * unit, value, unit, width, height}, stream, async);
}

template <class Out, class Field>
cudaError_t streamFact(cudaStream_t stream, Out *out, Field StreamFacts::*field)
{
	StreamFacts facts;
	const cudaError_t error = streamFacts(stream, &facts);
	return error ? error : give(out, facts.*field);
}

// Facts that a real driver refuses to report about a captured stream (seen on an H100, driver 580).
template <class Out, class Field>
cudaError_t uncapturedFact(cudaStream_t stream, Out *out, Field StreamFacts::*field)
{
	const cudaError_t refused = refuseCaptured(stream);
	return refused ? refused : streamFact(stream, out, field);
}

inline cudaError_t callHost(cudaStream_t stream, cudaHostFn_t callback, void *data)
{
	return callback ? launchHost(stream, [=] { callback(data); }) : cudaErrorInvalidValue;
}

template <class Status>
cudaError_t callBack(cudaStream_t stream, void (*callback)(cudaStream_t, Status, void *), void *data, unsigned flags)
{
	return callback && !flags ? launchHost(stream, [=] { callback(stream, Status(0), data); }) : cudaErrorInvalidValue;
}

template <class Id, class... Rest>
cudaError_t captureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status, Id *id, Rest... rest)
{
	static_assert(sizeof(Id) == sizeof(unsigned long long));
	return giveCapture(stream, status, reinterpret_cast<unsigned long long *>(id), rest...);
}

template <class Out>
cudaError_t loadLibrary(Out *out, const void *code)
{
	if (!code)
		return cudaErrorInvalidValue;
	const cudaError_t error = checkImage(code);
	return error ? error : loadLibrary(reinterpret_cast<void **>(out));
}

// A cubin for another architecture is found when a kernel is looked up (seen on an H100, driver 580).
template <class Out>
cudaError_t loadLazily(Out *out, const void *code)
{
	return code && isForeignCubin(code) ? loadLibrary(reinterpret_cast<void **>(out), true) : loadLibrary(out, code);
}

template <class Out>
cudaError_t libraryKernel(Out *out, void *library, const char *name)
{
	return libraryKernel(reinterpret_cast<void **>(out), library, name);
}

inline cudaError_t nameOf(const char **name, Function *function)
{
	return isFunction(function) ? give(name, function->name.c_str()) : cudaErrorInvalidResourceHandle;
}

} // namespace emulated
