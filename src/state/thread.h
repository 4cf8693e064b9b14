// What one application thread has of ours: its lane of the trace, its caches. Behind the front's thread block; given
// back when the thread ends.
#pragma once

#include "inject/front.h"
#include "src/cuda/driver.h"
#include "src/op/backend.h"
#include "src/op/vendor.h"
#include "src/state/caller.h"
#include "src/state/process.h"
#include "src/trace/recorder.h"

#include <cstdint>

namespace autoamp::core {

struct Rows; // site/rows.h

// What a call's site depends on, as the door can gather it without looking at anything twice: arguments that are no
// addresses, the handle's modes, the device, the caller, the context. Equal keys have equal Ops, so a hit skips the
// description. The last word is never 0.
struct Key {
	static constexpr unsigned size = 17;
	uint64_t words[size] = {};

	// 8 bits, from the words that usually differ; all words are compared.
	[[gnu::always_inline]] static uint64_t hash(const uint64_t (&words)[size])
	{
		const uint64_t sizes = words[1] + (words[2] << 21) + (words[3] << 43);
		const uint64_t context = words[size - 1] & 0xffffff00;
		return (sizes + (words[0] << 9) + (words[13] << 12) + words[size - 2] + context) * 0x9e3779b97f4a7c15u >> 56;
	}
	bool operator==(const Key &) const = default;
};

struct Thread {
	struct Caller {
		const void *address = nullptr;
		CallerAnswer answer = {};
	};
	struct Memo {
		Key key;
		Rows *rows = nullptr;
		trace::RowId row = 0;
		bool isPassed = false;       // runs as it was asked, whatever else: no more to do than count it
		trace::Cell *cell = nullptr; // there; null without a trace
	};
	// Key and counter of a call that is only counted.
	struct Counted {
		const void *caller = nullptr; // return address
		uint64_t entry = 0, transposes = 0;
		int64_t m = 0, n = 0, k = 0, batch = 0;
		trace::Cell *cell = nullptr;
	};
	trace::Lane *lane = nullptr;
	const cuda::Driver *driver = nullptr; // null: there is none
	const op::Cublas *cublas = nullptr;   // null: no call has asked for it, or it has no getters
	op::Execution execution;              // the latest of cuDNN's graph API
	uint64_t launcher = 0;                // whose its launches are: core/launches.h
	bool isLauncherRecorded = false;      // it belongs to a call that is recorded
	bool isInsideCapture = false;         // its call is counted as one inside the capture range
	uint32_t nameClass = 0;               // 8 bits; 0: no rule asks for its name
	Memo memos[256] = {};                 // by the key's hash, 8 bits
	Caller callers[64] = {};              // by return address
	Counted counted[256] = {};            // by placeOfCounted()
	trace::Cell untraced = {};            // of calls that are only counted, without a trace
};

// Null only without memory: then the call goes through untraced.
Thread *makeThread(Process &process);

inline Thread *knownThread() // null: it has not called yet
{
	return static_cast<Thread *>(autoamp_front_thread.core);
}

inline Thread *thisThread(Process &process)
{
	Thread *const thread = knownThread();
	return __builtin_expect(thread != nullptr, 1) ? thread : makeThread(process);
}

// Cached by return address: a plugin that is unloaded and another one in its place keep the first one's name.
inline const Thread::Caller &placeOf(const Thread &thread, const void *address)
{
	return thread.callers[reinterpret_cast<uintptr_t>(address) / 4 % (sizeof thread.callers / sizeof *thread.callers)];
}

inline CallerAnswer callerOf(Thread &thread, const void *address)
{
	auto &cached = const_cast<Thread::Caller &>(placeOf(thread, address));
	if (__builtin_expect(cached.address != address, 0))
		cached = {address, findCaller(address)};
	return cached.answer;
}

inline Thread::Memo &memoOf(Thread &thread, const Key &key)
{
	return thread.memos[Key::hash(key.words)];
}

// In a forked child: the forking thread's state stays, its lane with it. What it remembers goes: the next call must
// open the child's trace.
trace::Lane *keepThisThread();

} // namespace autoamp::core
