#include "src/life/launches.h"

#include "src/base/own_work.h"
#include "src/place/capture_range.h"

#include <utility>

namespace autoamp::core {

namespace {

// A graph node made by an unrecorded call still belongs to the row of that call, at every replay.
trace::cupti::Launcher currentLauncher(bool isNode)
{
	const Thread *const thread = knownThread();
	const bool isKnown = thread && (isNode || thread->isLauncherRecorded || thread->launcher >= base::firstUpdateOwner);
	return isKnown ? thread->launcher : 0;
}

void onOwnWork(bool)
{
	if (Thread *const thread = knownThread(); thread && thread->launcher && thread->launcher < base::firstUpdateOwner)
		thread->launcher ^= trace::cupti::launcherOurs;
}

uint64_t setOwner(uint64_t owner)
{
	Thread *const thread = knownThread();
	return thread ? std::exchange(thread->launcher, owner) : 0;
}

} // namespace

void watchLaunches(Process &process, void (*watchExit)())
{
	trace::cupti::start(process.recorder, process.options.cuptiPath.c_str(), currentLauncher, areKernelsCaptured,
	                    watchExit);
	if (trace::cupti::isOn.load(std::memory_order_relaxed))
		base::ownWorkListener.store(onOwnWork, std::memory_order_relaxed),
		    base::ownerSetter.store(setOwner, std::memory_order_relaxed);
}

} // namespace autoamp::core
