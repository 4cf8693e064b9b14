// Memory outside of the application's heap, for tables that grow rarely and live as long as the process. No locks: the
// owner of a table takes the lock. A failed allocation returns null or false; nothing is thrown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <type_traits>

namespace autoamp::base {

constexpr size_t pageRound(size_t size)
{
	return (size + 4095) & ~size_t{4095};
}

inline void *mapPages(size_t size)
{
	void *pages = mmap(nullptr, pageRound(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return pages == MAP_FAILED ? nullptr : pages;
}

inline void unmapPages(void *pages, size_t size)
{
	if (pages)
		munmap(pages, pageRound(size));
}

// Allocates zeroed memory that is never freed.
class Arena
{
public:
	void *take(size_t size)
	{
		size = (size + 63) & ~size_t{63};
		if (size > left_) {
			size_t block = size > kBlock ? pageRound(size) : kBlock;
			auto *fresh = static_cast<char *>(mapPages(block));
			if (!fresh)
				return nullptr;
			next_ = fresh;
			left_ = block;
		}
		void *piece = next_;
		next_ += size;
		left_ -= size;
		return piece;
	}
	template <class T>
	T *make(size_t more = 0)
	{
		void *piece = take(sizeof(T) + more);
		return piece ? new (piece) T() : nullptr;
	}

private:
	static constexpr size_t kBlock = 64 << 10;
	char *next_ = nullptr;
	size_t left_ = 0;
};

// A growing array of trivially copyable values. The entries move when it grows.
template <class T>
class Array
{
	static_assert(std::is_trivially_copyable_v<T>);

public:
	bool push(const T &value)
	{
		if (!reserve(size_ + 1))
			return false;
		data_[size_++] = value;
		return true;
	}
	bool resize(size_t size) // new entries are zero
	{
		if (!reserve(size))
			return false;
		size_ = size;
		return true;
	}
	void clear()
	{
		unmapPages(data_, capacity_ * sizeof(T));
		data_ = nullptr;
		size_ = capacity_ = 0;
	}
	size_t size() const { return size_; }
	T &operator[](size_t index) { return data_[index]; }
	T *begin() { return data_; }
	T *end() { return data_ + size_; }

private:
	bool reserve(size_t size)
	{
		if (size <= capacity_)
			return true;
		size_t bytes = pageRound((size > 2 * capacity_ ? size : 2 * capacity_) * sizeof(T));
		auto *fresh = static_cast<T *>(mapPages(bytes));
		if (!fresh)
			return false;
		if (size_)
			memcpy(static_cast<void *>(fresh), data_, size_ * sizeof(T));
		unmapPages(data_, capacity_ * sizeof(T));
		data_ = fresh;
		capacity_ = bytes / sizeof(T);
		return true;
	}

	T *data_ = nullptr;
	size_t size_ = 0, capacity_ = 0;
};

// Maps a hash to objects, which the caller compares. Nothing is ever removed.
template <class T>
class Index
{
public:
	template <class Same>
	T *find(uint64_t hash, Same &&same)
	{
		for (size_t at = hash; slots_.size(); ++at) {
			Slot &slot = slots_[at & (slots_.size() - 1)];
			if (!slot.thing)
				break;
			if (slot.hash == hash && same(*slot.thing))
				return slot.thing;
		}
		return nullptr;
	}
	bool add(uint64_t hash, T *thing)
	{
		if (2 * (used_ + 1) > slots_.size()) {
			Array<Slot> larger;
			if (!larger.resize(slots_.size() ? 2 * slots_.size() : 256))
				return false;
			for (Slot &slot : slots_)
				if (slot.thing)
					place(larger, slot);
			slots_.clear();
			slots_ = larger;
		}
		place(slots_, {hash, thing});
		++used_;
		return true;
	}

private:
	struct Slot {
		uint64_t hash;
		T *thing;
	};
	static void place(Array<Slot> &slots, const Slot &slot)
	{
		size_t at = slot.hash & (slots.size() - 1);
		while (slots[at].thing)
			at = (at + 1) & (slots.size() - 1);
		slots[at] = slot;
	}

	Array<Slot> slots_;
	size_t used_ = 0;
};

} // namespace autoamp::base
