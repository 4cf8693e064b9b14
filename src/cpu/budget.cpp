#include "src/cpu/budget.h"

#include "src/cpu/generation.h"

#include <atomic>

namespace autoamp::cpu {

namespace {

// Pages, and the generation that they belong to, in one word: a child must not count the memory of its parent.
constexpr int pageBits = 40;
constinit std::atomic<uint64_t> held{0};

int64_t pagesIn(uint64_t word, uint32_t now)
{
	return word >> pageBits == now ? static_cast<int64_t>(word & ((uint64_t{1} << pageBits) - 1)) : 0;
}

// False if more pages than `most` would be held. Fewer pages are always possible.
bool account(int64_t pages, uint32_t now, int64_t most = 0)
{
	uint64_t word = held.load(std::memory_order_relaxed), next;
	do {
		const int64_t sum = pagesIn(word, now) + pages;
		if (pages > 0 && (sum > most || sum >> pageBits != 0))
			return false;
		next = uint64_t{now} << pageBits | static_cast<uint64_t>(sum);
	} while (!held.compare_exchange_weak(word, next, std::memory_order_relaxed));
	return true;
}

int64_t pagesOf(size_t bytes)
{
	return static_cast<int64_t>(bytes / 4096);
}

} // namespace

bool hold(size_t bytes, size_t budget)
{
	return account(pagesOf(bytes), generation(), pagesOf(budget));
}

void letGo(size_t bytes, uint32_t owner)
{
	if (owner == generation())
		account(-pagesOf(bytes), owner);
}

size_t bytesHeld()
{
	return static_cast<size_t>(pagesIn(held.load(std::memory_order_relaxed), generation())) * 4096;
}

} // namespace autoamp::cpu
