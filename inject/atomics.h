// Atomic access to pointers and numbers that threads share. Any thread.
#pragma once

namespace autoamp::front {

template <typename T>
T load(const T &cell)
{
	return __atomic_load_n(&cell, __ATOMIC_ACQUIRE);
}

template <typename T, typename V>
void store(T &cell, V value)
{
	__atomic_store_n(&cell, reinterpret_cast<T>(value), __ATOMIC_RELEASE);
}

// Stores `value` if the cell is null. Returns the value that the cell has then.
template <typename T>
T settle(T &cell, T value)
{
	T none = nullptr;
	return __atomic_compare_exchange_n(&cell, &none, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ? value : none;
}

} // namespace autoamp::front
