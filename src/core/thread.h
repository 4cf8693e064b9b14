// What one application thread has of ours: its lane of the trace, its caches. Behind the front's thread block; given
// back when the thread ends.
#pragma once

#include "inject/front.h"
#include "src/core/caller.h"
#include "src/core/site.h"
#include "src/trace/recorder.h"

namespace autoamp::core {

struct Thread {
	struct Caller {
		const void *address = nullptr;
		CallerAnswer answer = {};
	};
	trace::Lane *lane = nullptr;
	Site *sites[512] = {};    // by hash
	Caller callers[64] = {};  // by return address
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

// In a forked child: the forking thread's state stays, its lane with it.
trace::Lane *laneOfThisThread();

inline Site &siteOf(Process &process, Thread &thread, const op::Op &op, const policy::Device &device)
{
	const uint64_t hash = hashOf(op);
	Site *&cached = thread.sites[hash % (sizeof thread.sites / sizeof *thread.sites)];
	if (__builtin_expect(!cached || cached->hash != hash || !(cached->op == op), 0))
		cached = &findSite(process, op, hash, device);
	return *cached;
}

} // namespace autoamp::core
