#include "src/call/unwinding.h"

#include "src/life/launches.h"
#include "src/place/capture_range.h"
#include "src/state/thread.h"

#include <cstdint>

namespace autoamp::core {

namespace {

void leaveCall()
{
	if (auto *const state = static_cast<base::CallerState *>(autoamp_front_thread.callerState))
		state->abandon();
	autoamp_front_thread.callerState = nullptr;
	const base::CallerState callerState;
	Thread *const thread = knownThread();
	if (!thread)
		return;
	Launches::leave(*thread);
	CaptureCall::leave(*thread);
	if (thread->lane)
		thread->lane->leaveCall();
}

} // namespace

} // namespace autoamp::core

// A personality routine of the Itanium C++ ABI. An asynchronous cancellation may arrive before the depth is
// incremented.
extern "C" __attribute__((visibility("hidden"))) int autoamp_core_unwind(int, int actions, uint64_t, void *, void *)
{
	constexpr int isCleanup = 2, continueUnwinding = 8;
	if ((actions & isCleanup) && autoamp_front_thread.depth > 0 && --autoamp_front_thread.depth == 0)
		autoamp::core::leaveCall();
	return continueUnwinding;
}
