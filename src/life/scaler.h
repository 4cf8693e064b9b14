// Copies scaler events from the device to the trace. Any thread; never waits.
#pragma once

#include "src/state/process.h"

namespace autoamp::core {

// Records the events that have reached the host. With `isLast` (at exit), also adds to the totals the events that the
// ring lost because it was not drained in time (graph replays).
void drainScalerEvents(Process &process, bool isLast = false);

} // namespace autoamp::core
