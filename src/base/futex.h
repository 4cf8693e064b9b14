// Waiting for another thread, asleep in the kernel: a loop that only yields never lets a thread of lower priority run,
// so that under SCHED_FIFO the one that is waited for would never come. Front and core; errno may change.
#pragma once

#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace autoamp::base {

// cell: the address of an int. Returns when it is no longer `seen`, when it was woken, at a signal, or at `deadline`
// (CLOCK_MONOTONIC): the caller looks again.
inline void futexWait(const void *cell, int seen, const timespec *deadline = nullptr)
{
	syscall(SYS_futex, cell, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
}

inline void futexWakeAll(const void *cell)
{
	syscall(SYS_futex, cell, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

// A moment from now.
class Deadline
{
public:
	explicit Deadline(long seconds)
	{
		clock_gettime(CLOCK_MONOTONIC, &at_);
		at_.tv_sec += seconds;
	}
	bool isOver() const
	{
		timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		return now.tv_sec > at_.tv_sec || (now.tv_sec == at_.tv_sec && now.tv_nsec >= at_.tv_nsec);
	}
	const timespec *at() const { return &at_; }

private:
	timespec at_;
};

} // namespace autoamp::base
