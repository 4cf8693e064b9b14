// What one application thread has of ours: its lane of the trace, its caches. Behind the front's thread block; given
// back when the thread ends.
#pragma once

#include "inject/front.h"
#include "src/core/caller.h"
#include "src/core/site.h"
#include "src/trace/recorder.h"

#include <cstring>

namespace autoamp::core {

// What a call's site depends on, as the door can gather it without looking at anything twice: arguments that are no
// addresses, the handle's modes, the device, the caller. Equal keys have equal Ops, so a hit skips the description. The
// last word is never 0.
struct Key {
	static constexpr unsigned size = 16;
	uint64_t words[size] = {};

	uint64_t hash() const // of what usually differs; the rest is compared
	{
		const uint64_t shape = ((words[0] * 31 + words[1]) * 31 + words[2]) * 31 + words[3];
		return (shape + words[size - 2]) * 0x9e3779b97f4a7c15u >> 56;
	}
	bool operator==(const Key &other) const // without branches: it nearly always holds
	{
		uint64_t difference = 0;
#pragma GCC unroll 16
		for (unsigned i = 0; i < size; i++)
			difference |= words[i] ^ other.words[i];
		return difference == 0;
	}
};

struct Thread {
	struct Caller {
		const void *address = nullptr;
		CallerAnswer answer = {};
	};
	struct Memo {
		Key key;
		Site *site = nullptr;
	};
	trace::Lane *lane = nullptr;
	Memo memos[256] = {};    // by the key's hash, 8 bits
	Caller callers[64] = {}; // by return address
};

// Null only without memory: then the call goes through untraced.
Thread *makeThread(Process &process);

inline Thread *thisThread(Process &process)
{
	auto *thread = static_cast<Thread *>(autoamp_front_thread.core);
	return __builtin_expect(thread != nullptr, 1) ? thread : makeThread(process);
}

// Cached by return address: a plugin that is unloaded and another one in its place keep the first one's name.
inline CallerAnswer callerOf(Thread &thread, const void *address)
{
	Thread::Caller &cached =
	    thread.callers[reinterpret_cast<uintptr_t>(address) / 4 % (sizeof thread.callers / sizeof *thread.callers)];
	if (__builtin_expect(cached.address != address, 0))
		cached = {address, findCaller(address)};
	return cached.answer;
}

inline Thread::Memo &memoOf(Thread &thread, const Key &key)
{
	return thread.memos[key.hash()];
}

// In a forked child: the forking thread's state stays, its lane with it.
trace::Lane *laneOfThisThread();

} // namespace autoamp::core
