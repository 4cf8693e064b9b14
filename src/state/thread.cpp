#include "src/state/thread.h"

#include "src/base/caller_state.h"
#include "src/base/held_signals.h"
#include "src/state/thread_name.h"

#include <atomic>
#include <new>
#include <pthread.h>

namespace autoamp::core {

namespace {

pthread_key_t key;
bool hasKey = false;
std::atomic<Process *> owner{nullptr}; // every thread stores the same value

void giveBack(void *state)
{
	const base::CallerState callerState;
	auto *thread = static_cast<Thread *>(state);
	// A later destructor of the application may make calls, which create new state.
	autoamp_front_thread.core = autoamp_front_thread.passed = nullptr;
	if (thread->lane)
		owner.load()->recorder.detach(thread->lane);
	delete thread;
}

void makeKey()
{
	hasKey = pthread_key_create(&key, giveBack) == 0;
}

} // namespace

Thread *makeThread(Process &process)
{
	const base::CallerState callerState;
	const base::HeldSignals held;
	static pthread_once_t once = PTHREAD_ONCE_INIT; // makeKey calls nothing that could wait
	pthread_once(&once, makeKey);
	auto *thread = new (std::nothrow) Thread;
	if (!thread)
		return nullptr;
	owner = &process;
	thread->driver = cuda::driver();
	char name[16] = "";
	if (!process.options.rules->threadPatterns.empty() && pthread_getname_np(pthread_self(), name, sizeof name) == 0)
		thread->nameClass = nameClassOf(process, name);
	if (process.isTracing && !(thread->lane = process.recorder.attach())) {
		delete thread;
		return nullptr;
	}
	autoamp_front_thread.core = thread;
	if (!process.isTracing)
		autoamp_front_thread.passed = thread->passed;
	if (hasKey)
		pthread_setspecific(key, thread);
	return thread;
}

trace::Lane *keepThisThread()
{
	Thread *const thread = knownThread();
	if (!thread)
		return nullptr;
	for (Thread::Memo &memo : thread->memos)
		memo = {};
	for (Thread::Counted &counted : thread->counted)
		counted = {};
	for (Thread::BlasMemo &memo : thread->blasMemos)
		replace(memo, {});
	return thread->lane;
}

} // namespace autoamp::core
