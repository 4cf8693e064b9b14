// Fork handlers: the child inherits no held lock and opens its own trace. Any thread.
#pragma once

#include "src/state/process.h"

namespace autoamp::core {

// Registers the handlers. Called once in a process.
void registerForkHandlers();

// In a forked child, at its first call: opens its own trace.
void reopenTrace(Process &process);

} // namespace autoamp::core
