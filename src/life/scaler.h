// Scaler events on their way from the device to the trace. Any thread; never waits.
#pragma once

#include "src/state/process.h"

namespace autoamp::core {

// Hands what has reached the host to the trace. `isLast` (at exit): also adds to the totals what the ring lost because
// nothing drained it in time (a graph that replays).
void drainScalerEvents(Process &process, bool isLast = false);

} // namespace autoamp::core
