// Scaler events on their way from the device to the trace. Any thread; never waits.
#pragma once

#include "src/core/process.h"

namespace autoamp::core {

// Hands what has reached the host to the trace. `isLast`: also the counts of what the ring could not hold.
void drainScalerEvents(Process &process, bool isLast = false);

} // namespace autoamp::core
