// Lets a thread sleep in the kernel until another one is done. A loop that only yields never lets a thread of lower
// priority run, and could wait forever for it under SCHED_FIFO. Front and core; errno may change.
#pragma once

#include <cstdint>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace autoamp::base {

// cell: the address of an int. Returns when its value is not `seen`, when woken, at a signal, or at `deadline`
// (CLOCK_MONOTONIC). The caller must check the value again.
inline void futexWait(const void *cell, int seen, const timespec *deadline = nullptr)
{
	syscall(SYS_futex, cell, FUTEX_WAIT_BITSET_PRIVATE, seen, deadline, nullptr, FUTEX_BITSET_MATCH_ANY);
}

inline void futexWakeAll(const void *cell)
{
	syscall(SYS_futex, cell, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

// A point in time, in seconds from now.
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
