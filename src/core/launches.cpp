#include "src/core/launches.h"

#include "src/base/own_work.h"
#include "src/core/capture_range.h"

namespace autoamp::core {

namespace {

trace::cupti::Launcher currentLauncher()
{
	const Thread *const thread = knownThread();
	return thread ? thread->launcher : 0;
}

void onOwnWork(bool isBegin)
{
	Thread *const thread = knownThread();
	if (!thread || !thread->launcher)
		return;
	thread->launcher ^= trace::cupti::launcherOurs;
	if (!thread->isLauncherTold)
		return;
	if (isBegin)
		trace::cupti::push(thread->launcher);
	else
		trace::cupti::pop();
}

} // namespace

void watchLaunches(Process &process)
{
	trace::cupti::start(process.recorder, process.options.cuptiPath.c_str(), currentLauncher, areKernelsCaptured);
	if (trace::cupti::isOn.load(std::memory_order_relaxed))
		base::ownWorkListener.store(onOwnWork, std::memory_order_relaxed);
}

} // namespace autoamp::core
