// The trace of this process: opened at the start and in each forked child, with its header; at the exit it gets what
// only the front knows. Any thread.
#pragma once

#include "src/state/process.h"

namespace autoamp::core {

// False: there is no trace, because none is asked for or it cannot be opened.
bool openTrace(Process &process);
// At the exit.
void closeTrace(Process &process, int status);
// The same facts as the header, on stderr: AUTOAMP_LOG=info.
void logStart(const Process &process);

} // namespace autoamp::core
