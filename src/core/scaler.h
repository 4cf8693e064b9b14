// Scaler events on their way from the device to the trace. Any thread; never waits.
#pragma once

#include "src/core/process.h"

namespace autoamp::core {

// Hands what has reached the host to the trace.
void drainScalerEvents(Process &process);

// At exit: what the ring lost because nothing drained it in time (a graph that replays) is added to the totals.
void settleScalerTotals(Process &process);

} // namespace autoamp::core
