// Lowers an application plan whose graph has one product. The lowered graph has 16-bit operands of the product and is
// otherwise the same; it runs as one plan built by autoamp. All other tensors are the application's. Any thread; never
// waits for the device.
// Invariant: it completes, or it declines before its plan is enqueued.
#pragma once

#include "src/lower/lowering.h"
#include "src/op/backend.h"

namespace autoamp::lower {

struct LoweredCall;

// A plan that corresponds to a call of the legacy API and is cast runs as that call, whatever its layouts.
Outcome lower(LoweredCall &lowered, const op::GraphCall &call, const op::Execution &execution);

} // namespace autoamp::lower
