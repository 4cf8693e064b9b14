// The trace of this process: opened with its header at the start and in each forked child. At exit, the counts of the
// front are added. Any thread.
#pragma once

#include "src/state/process.h"

namespace autoamp::core {

// Returns false if no trace is requested or it cannot be opened.
bool openTrace(Process &process);
// Called at exit.
void closeTrace(Process &process, int status);
// Logs the facts of the header on stderr, with AUTOAMP_LOG=info.
void logStart(const Process &process);

} // namespace autoamp::core
