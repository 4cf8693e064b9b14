// The start of autoamp in a process, at its first intercepted call, and its exit. Any thread.
#pragma once

#include "src/state/process.h"

namespace autoamp::core {

// Null: autoamp is off in this process (AUTOAMP_ENABLED=0, or an invalid variable, which stderr reports).
Process *startProcess();
inline Process *process()
{
	Process *const process = theProcess.load(std::memory_order_acquire);
	return __builtin_expect(process != nullptr, 1) ? process : startProcess();
}

} // namespace autoamp::core
