// Cleanup for calls that end without a return: an application callback threw inside the vendor function, or the thread
// was cancelled there. Uses the state of the calling thread only.
//
// The core is built without exceptions: any unwinder passes its frames, and no destructor in them runs. The frame of a
// wrapper names a personality routine, which the unwinder calls, as the C++ ABI defines it. The routine does the work
// of the destructors. The frames of the core are intact at that time.
#pragma once

#include "inject/front.h"
#include "src/base/caller_state.h"

namespace autoamp::core {

// Lives while core code runs for an intercepted call, before, after or instead of the original function.
struct OwnCode {
	OwnCode() : outer(autoamp_front_thread.callerState) { autoamp_front_thread.callerState = &callerState; }
	~OwnCode() { autoamp_front_thread.callerState = outer; }
	OwnCode(const OwnCode &) = delete;
	OwnCode &operator=(const OwnCode &) = delete;

	base::CallerState callerState;
	void *const outer; // that of a call which this one is inside: a BLAS may call its own routines by name
};

} // namespace autoamp::core

// For functions that increment the depth of the thread and decrement it before they return.
#define AUTOAMP_LEAVES_CALL_WHEN_UNWOUND asm volatile(".cfi_personality 0x1b, autoamp_core_unwind")
