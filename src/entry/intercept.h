// Where every generated door ends: one call, from the application's arguments to the library's answer. Any thread.
// Nothing thrown leaves.
#pragma once

#include "inject/entry_table.h"
#include "inject/front.h"
#include "src/dispatch.h"

#include <cublas_api.h>

namespace autoamp::entry {

// Calls from inside a door (the vendor's own, or ours) go straight to the truth.
struct Inside {
	Inside() { autoamp_front_thread.depth++; }
	~Inside() { autoamp_front_thread.depth--; }
};

template <unsigned index>
inline void *truthOf()
{
	void *const truth = __atomic_load_n(&autoamp_front_truths[index], __ATOMIC_ACQUIRE);
	return __builtin_expect(truth != nullptr, 1) ? truth : autoamp_front_truth(index);
}

// The true function where there is nothing to do (inside another call, or an idle process): the door then jumps to it
// before it has looked at an argument. Null: intercept.
template <unsigned index, typename Fn>
[[gnu::always_inline]] inline Fn *passThrough()
{
	if (__builtin_expect(autoamp_front_thread.depth > 0 || core::isIdle.load(std::memory_order_relaxed), 0))
		return reinterpret_cast<Fn *>(truthOf<index>());
	return nullptr;
}

// Inlined into each door, or the arguments would be copied twice on their way.
template <unsigned index, typename Fn, typename Call, typename... Args>
[[gnu::always_inline]] inline auto intercept(const Call &call, const void *caller, Args... args) noexcept
{
	void *const truth = truthOf<index>();
	if (!truth)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	const auto original = [&] { return reinterpret_cast<Fn *>(truth)(args...); };
	const Inside inside;
	core::Process *const process = core::process(truth);
	if (!process)
		return original();
	return static_cast<cublasStatus_t>(
	    dispatch(*process, entryTable[index], Door{index, truth, caller}, call, Original(original)));
}

} // namespace autoamp::entry
