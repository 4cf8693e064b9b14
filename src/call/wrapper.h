// Body of every generated entry-point wrapper: one call, from the application's arguments to the returned status. Any
// thread. An exception that an application callback throws inside the vendor function reaches the application.
#pragma once

#include "inject/entry_table.h"
#include "inject/front.h"
#include "src/call/counted.h"
#include "src/call/dispatch.h"
#include "src/call/fast_path.h"
#include "src/call/unwinding.h"
#include "src/gradient/api.h"
#include "src/life/start.h"
#include "src/op/backend.h"
#include "src/place/region/api.h"

#include <cublas_api.h>
#include <cudnn_graph.h>

#include <type_traits>

namespace autoamp::entry {

constexpr const front::Regions *regions = &core::regionCalls;     // for the front
constexpr const front::Scalers *scalers = &gradient::scalerCalls; // for the front

// Calls from inside a wrapper, by the vendor library or by autoamp, run the original function directly.
struct Inside {
	Inside() { autoamp_front_thread.depth++; }
	~Inside() { autoamp_front_thread.depth--; }
};

template <typename Status>
constexpr Status notInitialized = CUBLAS_STATUS_NOT_INITIALIZED;
template <>
inline constexpr cudnnStatus_t notInitialized<cudnnStatus_t> = CUDNN_STATUS_NOT_INITIALIZED;

template <unsigned index>
inline void *originalFunction()
{
	void *const function = __atomic_load_n(&autoamp_front_originals[index], __ATOMIC_ACQUIRE);
	return __builtin_expect(function != nullptr, 1) ? function : autoamp_front_original(index);
}

// Slow path. Copies the arguments, so that in intercept() they stay where the application passed them.
template <unsigned index, typename Fn, typename Copy, typename... Args>
[[gnu::noinline]] auto dispatchFrom(const void *function, const void *caller, Args... args)
{
	core::OwnCode ownCode;
	const auto original = [&] {
		const base::CallerState::Restored restored(ownCode.callerState);
		return reinterpret_cast<Fn *>(const_cast<void *>(function))(args...);
	};
	core::Process *const process = core::process();
	if (!process)
		return original();
	return static_cast<std::invoke_result_t<Fn, Args...>>(dispatch(
	    *process, entryTable[index], Interception{index, function, caller}, Copy()(args...), Original(original)));
}

// `copy` builds the call struct of the family from the arguments. No call of the original function is a tail call: the
// compiler would first move every argument to another place.
template <unsigned index, typename Fn, typename Copy, typename... Args>
[[gnu::always_inline]] inline auto intercept(const Copy &copy, const void *caller, Args... args)
{
	AUTOAMP_LEAVES_CALL_WHEN_UNWOUND;
	void *const function = originalFunction<index>();
	if (!function)
		return notInitialized<std::invoke_result_t<Fn, Args...>>;
	const Inside inside;
	const auto original = [&]() __attribute__((always_inline))
	{
		return reinterpret_cast<Fn *>(function)(args...);
	};
	// Inside another call, or in a process with nothing to change or record.
	if (__builtin_expect(autoamp_front_thread.depth > 1 || core::isIdle.load(std::memory_order_relaxed), 0))
		return original();
	using Call = decltype(copy(args...));
	// Calls of the other families have no fast path: their descriptors must be read.
	if constexpr (std::is_same_v<Call, op::GemmCall> || std::is_same_v<Call, op::PlainCall>)
		if (core::Thread *const thread = core::knownThread(); __builtin_expect(thread != nullptr, 1)) {
			const auto call = copy(args...);
			if (const auto *memo = core::findCached(*thread, index, entryTable[index], caller, call))
				return core::callOriginal(*thread, *memo, entryTable[index], call, original);
		}
	return dispatchFrom<index, Fn, Copy>(function, caller, args...);
}

template <unsigned index, typename Fn, typename Copy, typename... Args>
[[gnu::noinline]] auto countFirst(const void *function, const void *caller, Args... args)
{
	AUTOAMP_LEAVES_CALL_WHEN_UNWOUND;
	const Inside inside;
	return dispatchFrom<index, Fn, Copy>(function, caller, args...);
}

// A call that has no lower-precision form, whatever its arguments are. Calls that the vendor library makes inside it
// come from vendor files and run unchanged for that reason, so the depth is not incremented.
template <unsigned index, typename Fn, typename Copy, typename... Args>
[[gnu::always_inline]] inline auto count(const Copy &copy, const void *caller, Args... args)
{
	void *const function = originalFunction<index>();
	if (!function)
		return notInitialized<std::invoke_result_t<Fn, Args...>>;
	if (__builtin_expect(!autoamp_front_thread.depth && !core::isIdle.load(std::memory_order_relaxed), 1)) {
		const core::Thread *const thread = core::knownThread();
		trace::Cell *const cell =
		    thread ? core::findCounted<index>(*thread, entryTable[index], caller, copy(args...)) : nullptr;
		if (__builtin_expect(!cell, 0))
			return countFirst<index, Fn, Copy>(function, caller, args...);
		trace::Lane::count(*cell);
	}
	return reinterpret_cast<Fn *>(function)(args...);
}

// An entry point that is not counted as a call, but describes a later call.
template <unsigned index, typename Fn, typename Watch, typename... Args>
auto watch(Watch *watch, Args... args)
{
	AUTOAMP_LEAVES_CALL_WHEN_UNWOUND;
	void *const function = originalFunction<index>();
	if (!function)
		return notInitialized<std::invoke_result_t<Fn, Args...>>;
	const Inside inside;
	const op::CudnnGraph *cudnn = nullptr;
	if (autoamp_front_thread.depth == 1 && !core::isIdle.load(std::memory_order_relaxed)) {
		const base::CallerState callerState;
		cudnn = op::cudnn<op::CudnnGraph>(function);
	}
	return cudnn ? static_cast<cudnnStatus_t>(watch(*cudnn, args...)) : reinterpret_cast<Fn *>(function)(args...);
}

} // namespace autoamp::entry
