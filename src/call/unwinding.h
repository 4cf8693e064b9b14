// Calls that are left without a return: a callback of the application's has thrown inside the vendor's function, or the
// thread was cancelled there. The calling thread's.
//
// The core is built without exceptions: unwinding passes its frames with any unwinder, and no destructor in them runs.
// The frame of a wrapper names a personality routine, which the unwinder calls, as the C++ ABI defines it. The routine
// does the work of the destructors. The frames of the core are intact at that time.
#pragma once

#include "inject/front.h"
#include "src/base/caller_state.h"

namespace autoamp::core {

// While the core runs for an intercepted call, in place of or around the application's own.
struct OwnCode {
	OwnCode() { autoamp_front_thread.callerState = &callerState; }
	~OwnCode() { autoamp_front_thread.callerState = nullptr; }
	OwnCode(const OwnCode &) = delete;
	OwnCode &operator=(const OwnCode &) = delete;

	base::CallerState callerState;
};

} // namespace autoamp::core

// In a function that increments the depth of the thread and decrements it before it returns.
#define AUTOAMP_LEAVES_CALL_WHEN_UNWOUND asm volatile(".cfi_personality 0x1b, autoamp_core_unwind")
