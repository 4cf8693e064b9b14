// Driver and vendor calls of autoamp that failed without an effect on the application. Any thread stores them; the next
// recorded call writes them to the trace. No lock.
#pragma once

#include <atomic>

namespace autoamp::base {

inline constinit std::atomic<bool> hasFaults{false};
inline constinit std::atomic<const char *> faults[8] = {};

// `what`: a string literal. It is dropped if all places are taken.
inline void leaveFault(const char *what)
{
	for (std::atomic<const char *> &place : faults)
		if (const char *none = nullptr; place.compare_exchange_strong(none, what, std::memory_order_relaxed))
			break;
	hasFaults.store(true, std::memory_order_release);
}

template <typename Take>
void takeFaults(Take take)
{
	if (__builtin_expect(!hasFaults.load(std::memory_order_relaxed), 1) ||
	    !hasFaults.exchange(false, std::memory_order_acquire))
		return;
	for (std::atomic<const char *> &place : faults)
		if (const char *what = place.exchange(nullptr, std::memory_order_relaxed))
			take(what);
}

} // namespace autoamp::base
