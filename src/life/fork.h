// What fork() needs: no lock is held over it, and the child begins with a trace of its own. Any thread.
#pragma once

#include "src/state/process.h"

namespace autoamp::core {

// Registers the handlers; once in a process.
void watchForks();

// In a forked child, at its first call: opens its own trace.
void reopenTrace(Process &process);

} // namespace autoamp::core
