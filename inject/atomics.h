// Atomic access to pointers and numbers that threads share. Any thread.
#pragma once

#include <cstdint>

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

// Words that change together, without waiting: a reader or writer that meets another writer gets false.
template <unsigned size>
struct Record {
	unsigned version; // odd: a thread writes
	uintptr_t words[size];

	bool read(uintptr_t (&copy)[size], unsigned &before) const
	{
		before = load(version);
		for (unsigned i = 0; i < size; i++)
			copy[i] = load(words[i]);
		return before % 2 == 0 && load(version) == before;
	}
	// `before`: from read(). False also if the record has changed since.
	bool write(const uintptr_t (&values)[size], unsigned before)
	{
		if (!__atomic_compare_exchange_n(&version, &before, before + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return false;
		for (unsigned i = 0; i < size; i++)
			store(words[i], values[i]);
		store(version, before + 2);
		return true;
	}
};

} // namespace autoamp::front
