// Per-thread state of an application thread: its trace lane and caches. The thread block of the front points to it.
// Freed when the thread ends.
#pragma once

#include "inject/front.h"
#include "src/cuda/driver.h"
#include "src/op/backend.h"
#include "src/op/vendor.h"
#include "src/state/caller.h"
#include "src/state/process.h"
#include "src/trace/write/recorder.h"

#include <atomic>
#include <cstdint>

namespace autoamp::core {

struct Rows; // site/site.h

// Everything that the site of a call depends on: arguments except addresses, modes of the handle, the device, the
// caller and the context. Equal keys have equal Ops, so a hit skips the description. The last word is never 0.
struct Key {
	static constexpr unsigned size = 17;
	uint64_t words[size] = {};

	// 8 bits, from the words that usually differ. A lookup compares all words.
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
		bool isPassThrough = false;  // the call runs unchanged and is only counted
		trace::Cell *cell = nullptr; // counter of `row`; null without a trace
	};
	// Key and counter of a call that is only counted.
	struct Counted {
		const void *caller = nullptr; // return address
		uint64_t entry = 0, transposes = 0;
		int64_t m = 0, n = 0, k = 0, batch = 0;
		trace::Cell *cell = nullptr;
	};
	// A call of a CPU BLAS that runs unchanged and is at most counted or timed.
	struct BlasMemo {
		const void *address = nullptr; // return address
		uint64_t entry = 0;            // slot, order, zero scalars, depth: entryWordOf()
		uint64_t written = 0;          // op::BlasCall::written
		int64_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
		uint32_t context = 0;
		unsigned closes = 0;  // autoamp_cpu_closes
		unsigned version = 0; // counts replacements
		bool isWide = false;
		bool isForSizes = false; // it runs unchanged whatever its arguments except the sizes are, and the function
		                         // calls no routine of another library
		bool needsSaved = false; // it runs unchanged while savedNs is 0
		trace::RowId row = 0;
		trace::Cell *cell = nullptr; // null without a trace
		void *original = nullptr;
	};
	// Without a trace: a product of a CPU BLAS that runs unchanged for its sizes, whatever its other arguments are.
	struct alignas(64) Passed {
		const void *address = nullptr, *original = nullptr; // return address, function
		uint32_t m = 0, n = 0, k = 0;
		unsigned slot = 0;
		uint32_t region = 0;
		unsigned closes = 0;  // autoamp_cpu_closes
		unsigned version = 0; // counts replacements
	};
	trace::Lane *lane = nullptr;
	const cuda::Driver *driver = nullptr; // null: no driver
	const op::Cublas *cublas = nullptr;   // null: no cuBLAS call so far, or a cuBLAS without getters
	op::Execution execution;              // the latest execution by the cuDNN graph API
	uint64_t launcher = 0;                // owner of its kernel launches (life/launches.h)
	bool isLauncherRecorded = false;      // the launcher belongs to a recorded call
	bool isInsideCapture = false;         // the current call is counted as inside the capture range
	uint32_t nameClass = 0;               // 8 bits; 0: no rule matches its name
	Memo memos[256] = {};                 // by the key's hash, 8 bits
	Caller callers[256] = {};             // by placeOf()
	Counted counted[256] = {};            // by placeOfCounted()
	BlasMemo blasMemos[256] = {};         // by placeOfBlas()
	Passed passed[256] = {};              // by sizes and address (call/passed_product.h)
	unsigned closes = 0;                  // autoamp_cpu_closes when `callers` was last cleared
	trace::Cell untraced = {};            // counter of only-counted calls if there is no trace
	double savedNs = 0;                   // by products on our threads (policy::mostSavedNs)
};

// Null if memory is short: the call then runs unchanged and is not recorded.
Thread *makeThread(Process &process);

inline Thread *knownThread() // null: no call of this thread so far
{
	return static_cast<Thread *>(autoamp_front_thread.core);
}

inline Thread *thisThread(Process &process)
{
	Thread *const thread = knownThread();
	return __builtin_expect(thread != nullptr, 1) ? thread : makeThread(process);
}

// The cache is by return address. If a plug-in is loaded at the address of an unloaded one, its calls get the name of
// the unloaded one.
inline const Thread::Caller &placeOf(const Thread &thread, const void *address)
{
	return thread.callers[reinterpret_cast<uintptr_t>(address) * 0x9e3779b97f4a7c15u >> 56];
}

inline CallerAnswer callerOf(Thread &thread, const void *address)
{
	auto &cached = const_cast<Thread::Caller &>(placeOf(thread, address));
	if (__builtin_expect(cached.address != address, 0))
		cached = {address, findCaller(address)};
	return cached.answer;
}

// For memos with an address and a version. A signal handler may use the memo in between; it replaces no memo then. A
// reader is right if the version is the same before and after it read.
template <typename Memo>
void replace(Memo &memo, const Memo &value)
{
	memo.address = nullptr;
	std::atomic_signal_fence(std::memory_order_seq_cst);
	Memo rest = value;
	rest.address = nullptr, rest.version = memo.version + 1;
	memo = rest;
	std::atomic_signal_fence(std::memory_order_seq_cst);
	memo.address = value.address;
}

inline Thread::Memo &memoOf(Thread &thread, const Key &key)
{
	return thread.memos[Key::hash(key.words)];
}

// In a forked child: keeps the state and the lane of the forking thread. Clears its memos, so that its next call takes
// the slow path and opens the trace of the child.
trace::Lane *keepThisThread();

} // namespace autoamp::core
