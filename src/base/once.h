// A value that is determined at its first use, on any thread, and never destroyed. No lock: racing threads each call
// the finder, and one result wins. The finder may thus call dlopen and CUDA, where a lock could hang the program.
#pragma once

#include <atomic>
#include <cstdint>

namespace autoamp::base {

// Holds a pointer that the finder returns. Null is also a result ("there is none") and is stored.
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
	// The same, but null means that the attempt failed: the next call tries again.
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
	static constexpr uintptr_t unknown = 1; // no object has an odd address
	std::atomic<uintptr_t> value_{unknown};
};

} // namespace autoamp::base
