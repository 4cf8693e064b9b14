// Forks and the work that they wait for. Any thread.
#pragma once

#include "inject/front.h"
#include "inject/loader.h"
#include "src/base/caller_state.h"
#include "src/base/held_signals.h"

namespace autoamp::front {

void registerForkHandlers();

// A futex: not 0 while a thread changes references (cpu/separation.cpp). A child does not have that thread.
extern int turn;

// Work that takes a lock of libc or the loader.
struct Resolving {
	Resolving() { autoamp_front_hold_forks(); }
	~Resolving() { autoamp_front_release_forks(); }
	const base::CallerState callerState;
	const bool hasLoader = awaitLoader(); // waits before forks must wait for this thread
	const base::HeldSignals held;
};

} // namespace autoamp::front
