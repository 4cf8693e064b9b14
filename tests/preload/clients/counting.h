// Counts allocations and locks of autoamp's own code while it handles cached calls. malloc and pthread_mutex_lock of
// libcounting.so, which is preloaded before libc, count the calls from libautoamp-core.so. A sanitizer's functions come
// before them; then nothing is counted.
#pragma once

#include "harness.h"

namespace client {

struct Count {
	int allocations, locks;
};
Count &counted(); // the calling thread's
void findCore();  // calls before it are not counted

// Counts in the first turn and in forty later ones, `calls` each. Another function was called before, so the core is
// loaded.
template <typename Turn>
void countTurns(Line &line, int calls, Turn turn)
{
	findCore();
	Count &count = counted();
	count = {};
	turn();
	line.put("first_allocations", count.allocations).put("first_locks", count.locks);
	for (int i = 0; i < 3; i++)
		turn();
	count = {};
	constexpr int rounds = 40;
	for (int i = 0; i < rounds; i++)
		turn();
	line.put("calls", calls * rounds).put("allocations", count.allocations).put("locks", count.locks);
}

} // namespace client
