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

template <unsigned index, typename Fn, typename Call, typename... Args>
auto intercept(const Call &call, const void *caller, Args... args) noexcept
{
	void *truth = __atomic_load_n(&autoamp_front_truths[index], __ATOMIC_ACQUIRE);
	if (!truth)
		truth = autoamp_front_truth(index);
	if (!truth)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (autoamp_front_thread.depth > 0 || core::isIdle.load(std::memory_order_relaxed))
		return reinterpret_cast<Fn *>(truth)(args...); // a jump
	const auto original = [&] { return reinterpret_cast<Fn *>(truth)(args...); };
	const Inside inside;
	core::Process *const process = core::process(truth);
	if (!process)
		return original();
	return static_cast<cublasStatus_t>(
		dispatch(*process, entryTable[index], Door{index, truth, caller}, call, Original(original)));
}

} // namespace autoamp::entry
