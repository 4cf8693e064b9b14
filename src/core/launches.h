// Whose kernels are launched: tells CUPTI, where kernels are traced, that what this thread launches is the call's. The
// calling thread's; one relaxed load where they are not.
#pragma once

#include "src/core/thread.h"
#include "src/trace/cupti.h"

namespace autoamp::core {

class Launches
{
public:
	// Of a call that is not recorded CUPTI is told nothing; but what it puts into a graph is its own, at any replay.
	Launches(Process &process, Thread &thread, Site &site, bool isRecorded) : thread_(thread), isRecorded_(isRecorded)
	{
		if (__builtin_expect(trace::cupti::isOn.load(std::memory_order_relaxed), 0) && thread.lane)
			begin(rowOf(process, site));
	}
	~Launches()
	{
		if (__builtin_expect(isBegun_, 0))
			end();
	}
	Launches(const Launches &) = delete;
	Launches &operator=(const Launches &) = delete;

	// What follows belongs to another row: the call runs as it was asked after all.
	void fallBack(Process &process, Site &site, policy::Reason reason)
	{
		if (__builtin_expect(isBegun_, 0)) {
			end();
			begin(fallbackRowOf(process, site, reason));
		}
	}

private:
	void begin(trace::RowId row)
	{
		isBegun_ = true;
		thread_.launcher = trace::cupti::launcherOf(row, isRecorded_ ? thread_.lane->nextCall() : 0);
		thread_.isLauncherTold = isRecorded_;
		if (isRecorded_)
			trace::cupti::push(thread_.launcher);
	}
	void end()
	{
		if (isRecorded_)
			trace::cupti::pop();
		thread_.launcher = 0;
		isBegun_ = false;
	}

	Thread &thread_;
	bool isRecorded_, isBegun_ = false;
};

// From the process's first call on, where AUTOAMP_TRACE asks for it.
void watchLaunches(Process &process);

} // namespace autoamp::core
