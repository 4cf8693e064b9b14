// How a plan of the application's is lowered whose graph has one product: the same graph with the product's operands in
// 16 bits, everything else as it is, as one plan of ours. Its tensors are the application's, but for those operands.
// Any thread; never waits for the device. Invariant: it declines before that plan is enqueued, or it finishes.
#pragma once

#include "src/op/backend.h"
#include "src/reroute/lowering.h"

namespace autoamp::reroute {

// The graph with the product's operands of type `precision`, and times a scalar behind it; tf32: the same graph.
op::Graph shadowOf(const op::KnownGraph &known, op::Dtype precision);

// `known`: a true function of the library that the application called. A plan is built where a graph is met for the
// first time in a context, never in capture.
Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const op::KnownGraph &graph, const op::VariantPack &pack, void *handle, const void *known, void *stream);

} // namespace autoamp::reroute
