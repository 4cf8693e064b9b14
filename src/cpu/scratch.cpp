#include "src/cpu/scratch.h"

#include "src/base/pages.h"
#include "src/cpu/generation.h"

#include <atomic>
#include <pthread.h>

namespace autoamp::cpu {

namespace {

struct Block {
	void *memory;
	size_t bytes;        // whole pages
	uint32_t generation; // generation() of the process that counts the block
};
constinit thread_local Block mine{};

// Pages of all blocks, and the process that they belong to, in one word: a child must not count blocks of threads that
// it does not have.
// Pages of all blocks, and the generation that they belong to, in one word: a child must not count the blocks of
// threads that it does not have.
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

void release()
{
	if (mine.generation == generation()) { // else a parent counted it, and the kernel has not copied it
		account(-pagesOf(mine.bytes), mine.generation);
		base::unmapPages(mine.memory, mine.bytes);
	}
	mine = {};
}

pthread_key_t key;
bool hasKey = false;

void makeKey()
{
	hasKey = pthread_key_create(&key, [](void *) { release(); }) == 0;
}

} // namespace

void *scratch(size_t bytes, size_t budget, Reason &reason)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT; // makeKey calls nothing that could wait
	const uint32_t now = generation();
	reason = Reason::memoryBudget;
	if (bytes > budget)
		return nullptr;
	if (mine.bytes >= bytes && mine.generation == now)
		return mine.memory;
	release();
	bytes = base::pageRound(bytes);
	if (!account(pagesOf(bytes), now, pagesOf(budget)))
		return nullptr;
	reason = Reason::noMemory;
	pthread_once(&once, makeKey);
	void *const memory = hasKey && pthread_setspecific(key, &mine) == 0 ? base::mapPages(bytes) : nullptr;
	if (!memory) {
		account(-pagesOf(bytes), now);
		return nullptr;
	}
	madvise(memory, bytes, MADV_DONTFORK);
	madvise(memory, bytes, MADV_HUGEPAGE); // fewer page faults and TLB misses; 4 KiB pages work as well
	mine = {memory, bytes, now};
	return memory;
}

size_t scratchHeld()
{
	return static_cast<size_t>(pagesIn(held.load(std::memory_order_relaxed), generation())) * 4096;
}

} // namespace autoamp::cpu
