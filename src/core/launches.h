// Whose kernels are launched: tells CUPTI, where kernels are traced, that what this thread launches is the call's. The
// calling thread's; one relaxed load where they are not.
#pragma once

#include "src/core/thread.h"
#include "src/trace/cupti.h"

namespace autoamp::core {

class Launches
{
public:
	Launches(Process &process, Thread &thread, Site &site) : thread_(thread)
	{
		if (__builtin_expect(trace::cupti::isOn.load(std::memory_order_relaxed), 0) && thread.lane)
			begin(rowOf(process, site));
	}
	~Launches()
	{
		if (__builtin_expect(isPushed_, 0))
			end();
	}
	Launches(const Launches &) = delete;
	Launches &operator=(const Launches &) = delete;

	// What follows belongs to another row: the call runs as it was asked after all.
	void fallBack(Process &process, Site &site, policy::Reason reason)
	{
		if (__builtin_expect(isPushed_, 0)) {
			end();
			begin(fallbackRowOf(process, site, reason));
		}
	}

private:
	void begin(trace::RowId row)
	{
		isPushed_ = true;
		thread_.launcher = trace::cupti::launcherOf(row, thread_.lane->nextCall());
		trace::cupti::push(thread_.launcher);
	}
	void end()
	{
		trace::cupti::pop();
		thread_.launcher = 0;
		isPushed_ = false;
	}

	Thread &thread_;
	bool isPushed_ = false;
};

// From the process's first call on, where AUTOAMP_TRACE asks for it.
void watchLaunches(Process &process);

} // namespace autoamp::core
