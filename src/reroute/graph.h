// Lowers an application plan whose graph has one product. The lowered graph has 16-bit operands of the product and is
// otherwise the same; it runs as one plan built by autoamp. All other tensors are the application's. Any thread; never
// waits for the device.
// Invariant: it completes, or it declines before its plan is enqueued.
#pragma once

#include "src/op/backend.h"
#include "src/reroute/lowering.h"

namespace autoamp::reroute {

// The graph with operands of type `precision` for the product, and a multiplication by a scalar after it. For tf32 it
// is the same graph.
op::Graph shadowOf(const op::KnownGraph &known, op::Dtype precision);

// `known`: an original function of the library that the application called. A plan is built at the first call of a
// graph in a context, never during capture.
Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const op::KnownGraph &graph, const op::VariantPack &pack, void *handle, const void *known, void *stream);

} // namespace autoamp::reroute
