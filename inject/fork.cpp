#include "inject/fork.h"

#include "src/base/futex.h"

// pthread_atfork would need crtbegin.
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void *object);

namespace autoamp::front {

namespace {

using base::CallerState, base::Deadline, base::futexWait, base::futexWakeAll;

// A child that is forked while another thread is inside dlopen or dl_iterate_phdr inherits the loader's write lock,
// which is then never released (glibc resets only the other lock). A fork therefore waits for resolving threads, but at
// most forkPatience: a resolving thread may wait for a lock that the forking thread holds. Resolving threads wait for
// forks in the same way, except for a thread that holds the loader's lock, for which another one may be waiting.
int resolvers, forks;
constexpr long forkPatience = 1; // seconds

void beforeFork()
{
	const CallerState callerState;
	__atomic_add_fetch(&forks, 1, __ATOMIC_SEQ_CST);
	const Deadline deadline(forkPatience);
	for (int others; (others = __atomic_load_n(&resolvers, __ATOMIC_SEQ_CST)) > autoamp_front_thread.resolving &&
	                 !deadline.isOver();)
		futexWait(&resolvers, others, deadline.at());
}

void afterFork()
{
	const CallerState callerState;
	__atomic_sub_fetch(&forks, 1, __ATOMIC_SEQ_CST);
	futexWakeAll(&forks);
}

void stopResolving()
{
	__atomic_sub_fetch(&resolvers, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&forks, __ATOMIC_SEQ_CST))
		futexWakeAll(&resolvers);
}

void inChild()
{
	adaptLoaderToFork();
	forks = 0, resolvers = autoamp_front_thread.resolving, opener = -1, turn = 0;
	autoamp_front_profiled %= 2; // an open profiler range continues
}

} // namespace

int turn;

void registerForkHandlers()
{
	__register_atfork(beforeFork, afterFork, inChild, nullptr);
}

} // namespace autoamp::front

using namespace autoamp::front;

extern "C" void autoamp_front_hold_forks()
{
	__atomic_add_fetch(&resolvers, 1, __ATOMIC_SEQ_CST);
	if (!autoamp_front_thread.resolving && __atomic_load_n(&forks, __ATOMIC_SEQ_CST) &&
	    holderOfLoader() != Loading::self) {
		const Deadline deadline(forkPatience);
		for (int others; (others = __atomic_load_n(&forks, __ATOMIC_SEQ_CST)) && !deadline.isOver();) {
			stopResolving();
			futexWait(&forks, others, deadline.at());
			__atomic_add_fetch(&resolvers, 1, __ATOMIC_SEQ_CST);
		}
	}
	autoamp_front_thread.resolving++;
}

extern "C" Loading autoamp_front_loading()
{
	return holderOfLoader();
}

extern "C" int autoamp_front_iterate(int (*visit)(dl_phdr_info *, size_t, void *), void *data)
{
	return loader.iterate(visit, data);
}

extern "C" void autoamp_front_release_forks()
{
	autoamp_front_thread.resolving--;
	stopResolving();
}
