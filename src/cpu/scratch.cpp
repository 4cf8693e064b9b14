#include "src/cpu/scratch.h"

#include "src/base/pages.h"
#include "src/cpu/budget.h"
#include "src/cpu/generation.h"

#include <pthread.h>

namespace autoamp::cpu {

namespace {

struct Block {
	void *memory;
	size_t bytes;        // whole pages
	uint32_t generation; // generation() of the process that counts the block
};
constinit thread_local Block mine{};

void release()
{
	letGo(mine.bytes, mine.generation);
	if (mine.generation == generation()) // else the kernel has not copied it from the parent
		base::unmapPages(mine.memory, mine.bytes);
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
	if (!hold(bytes, budget))
		return nullptr;
	reason = Reason::noMemory;
	pthread_once(&once, makeKey);
	void *const memory = hasKey && pthread_setspecific(key, &mine) == 0 ? base::mapPages(bytes) : nullptr;
	if (!memory) {
		letGo(bytes, now);
		return nullptr;
	}
	madvise(memory, bytes, MADV_DONTFORK);
	madvise(memory, bytes, MADV_HUGEPAGE); // fewer page faults and TLB misses; 4 KiB pages work as well
	mine = {memory, bytes, now};
	return memory;
}

} // namespace autoamp::cpu
