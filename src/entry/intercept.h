// Where every generated door ends: one call, from the application's arguments to the library's answer. Any thread.
// Nothing thrown leaves.
#pragma once

#include "inject/entry_table.h"
#include "inject/front.h"
#include "src/entry/arguments.h"

#include <cublas_api.h>

namespace autoamp::entry
{

struct Inside {
	Inside() { autoamp_front_thread.depth++; }
	~Inside() { autoamp_front_thread.depth--; }
};

template <unsigned index, typename Fn, typename Call, typename... Args>
auto intercept(const Call &, const void *, Args... args) noexcept
{
	void *truth = __atomic_load_n(&autoamp_front_truths[index], __ATOMIC_ACQUIRE);
	if (!truth)
		truth = autoamp_front_truth(index);
	if (!truth)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	const Inside inside;
	return reinterpret_cast<Fn *>(truth)(args...);
}

} // namespace autoamp::entry
