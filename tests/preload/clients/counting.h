// What the library's own code allocates and locks while it handles what it knows: malloc and pthread_mutex_lock of
// libcounting.so, which stands in front of libc, count the calls that come from libautoamp-core.so. A sanitizer's stand
// in front of them: there nothing is counted.
#pragma once

#include "harness.h"

namespace client {

struct Count {
	int allocations, locks;
};
Count &counted(); // the calling thread's
void findCore();  // nothing before is counted

// At the first turn, and in forty later ones, `calls` each. Something else has been called before: the core is there.
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
