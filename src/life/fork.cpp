#include "src/life/fork.h"

#include "inject/front.h"
#include "src/base/broken_loader.h"
#include "src/base/caller_state.h"
#include "src/life/gradients.h"
#include "src/life/trace_file.h"
#include "src/life/weight_events.h"
#include "src/lower/context_state.h"
#include "src/lower/self_test.h"
#include "src/op/backend.h"
#include "src/place/capture_range.h"
#include "src/site/site.h"
#include "src/state/stage.h"
#include "src/state/thread.h"
#include "src/trace/cupti/collector.h"

#include <pthread.h>

namespace autoamp::core {

namespace {

void noteLoader()
{
	base::isLoaderBroken = autoamp_front_loading() == front::Loading::broken;
}

void beforeFork()
{
	lockSites();
	op::lockDescriptors();
	if (stage.load(std::memory_order_acquire) == Stage::on)
		theProcess.load()->recorder.beforeFork();
}

void afterForkInParent()
{
	if (stage.load(std::memory_order_acquire) == Stage::on)
		theProcess.load()->recorder.afterForkInParent();
	op::unlockDescriptors();
	unlockSites();
}

// The child keeps the configuration and the sites. CUDA does not work in it. Its first call opens its own trace; the
// open one belongs to the parent.
void afterForkInChild()
{
	Stage at = stage.load(std::memory_order_acquire);
	if (at == Stage::starting)
		stage.store(Stage::none, std::memory_order_release); // the starting thread does not exist in the child
	if (at == Stage::on) {
		theProcess.load()->recorder.afterForkInChild(keepThisThread());
		theProcess.load()->isForked.store(theProcess.load()->isTracing, std::memory_order_release);
	}
	noteLoader();
	forgetCapture();
	trace::cupti::forget();
	lower::forgetContexts();
	forgetGradients();
	forgetChanges();
	lower::forgetTests();
	op::unlockDescriptors();
	unlockSites();
}

} // namespace

void registerForkHandlers()
{
	noteLoader();
	pthread_atfork(beforeFork, afterForkInParent, afterForkInChild);
}

void reopenTrace(Process &process)
{
	if (process.isForked.exchange(false, std::memory_order_acq_rel)) {
		const base::CallerState callerState;
		openTrace(process);
		limitCapture(process);
		if (process.options.trace == policy::TraceLevel::kernels)
			process.recorder.note(trace::noteOfKernels, "CUPTI does not work in a forked child");
		process.librariesSeen = 0;
	}
}

} // namespace autoamp::core
