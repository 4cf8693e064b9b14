// Marks kernels that the calling thread launches as work of its call, while kernels are traced. Used by the calling
// thread only. Costs one relaxed load if kernels are not traced.
#pragma once

#include "src/site/rows.h"
#include "src/state/thread.h"
#include "src/trace/cupti/collector.h"

namespace autoamp::core {

class Launches
{
public:
	Launches(Process &process, Thread &thread, Rows &rows, bool isRecorded) : thread_(thread), isRecorded_(isRecorded)
	{
		if (__builtin_expect(trace::cupti::isOn.load(std::memory_order_relaxed), 0) && thread.lane)
			begin(rowOf(process, rows));
	}
	~Launches()
	{
		if (__builtin_expect(isBegun_, 0))
			leave(thread_);
	}
	Launches(const Launches &) = delete;
	Launches &operator=(const Launches &) = delete;

	// The kernels that follow belong to another row: the call runs unchanged, or by the substitute.
	void fallBack(Process &process, Rows &rows, policy::Reason reason)
	{
		if (__builtin_expect(isBegun_, 0)) {
			leave(thread_);
			begin(fallbackRowOf(process, rows, reason));
		}
	}
	void substitute(Process &process, Rows &rows, policy::Reason shortage)
	{
		if (__builtin_expect(isBegun_, 0)) {
			leave(thread_);
			begin(substituteRowOf(process, rows, shortage));
		}
	}

	// Also called for a call whose frames were unwound.
	static void leave(Thread &thread) { thread.launcher = 0; }

private:
	void begin(trace::RowId row)
	{
		isBegun_ = true;
		thread_.launcher = trace::cupti::launcherOf(row, isRecorded_ ? thread_.lane->nextCall() : 0);
		thread_.isLauncherRecorded = isRecorded_;
	}

	Thread &thread_;
	bool isRecorded_, isBegun_ = false;
};

// Starts kernel tracing at the first call of the process, if AUTOAMP_TRACE=kernels. watchExit: as for
// trace::cupti::start().
void watchLaunches(Process &process, void (*watchExit)());

} // namespace autoamp::core
