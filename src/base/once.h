// A value found out at first use, by whichever thread comes first; never destroyed. Any thread, no lock: racing threads
// each find out, one answer wins, so the finder may call dlopen and CUDA (a lock held there could hang the program).
#pragma once

#include <atomic>
#include <cstdint>

namespace autoamp::base {

// Holds a pointer that the finder returns; null is an answer too ("there is none") and is found out only once.
template <typename T>
class Once
{
public:
	template <typename Find>
	T *get(Find find)
	{
		uintptr_t known = value_.load(std::memory_order_acquire);
		if (__builtin_expect(known == unknown, 0)) {
			const uintptr_t found = reinterpret_cast<uintptr_t>(find());
			if (value_.compare_exchange_strong(known, found, std::memory_order_acq_rel))
				known = found;
		}
		return reinterpret_cast<T *>(known);
	}
	// The same, but null means "it did not work this time": the next call tries again.
	template <typename Find>
	T *getOrRetry(Find find)
	{
		uintptr_t known = value_.load(std::memory_order_acquire);
		if (__builtin_expect(known == unknown, 0)) {
			T *const found = find();
			if (!found)
				return nullptr;
			if (value_.compare_exchange_strong(known, reinterpret_cast<uintptr_t>(found), std::memory_order_acq_rel))
				known = reinterpret_cast<uintptr_t>(found);
		}
		return reinterpret_cast<T *>(known);
	}

private:
	static constexpr uintptr_t unknown = 1; // no object lies at an odd address
	std::atomic<uintptr_t> value_{unknown};
};

} // namespace autoamp::base
