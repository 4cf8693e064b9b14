// How a convolution is lowered: 16-bit channels-last copies of its operands, their scales settled; one plan of cuDNN of
// ours (op/shadow.h); the result taken home to where the application wants it, unless the plan can write there. All on
// the call's own stream. Any thread; never waits for the device.
// Invariant: it declines before anything of the application's was written, or it finishes.
#pragma once

#include "src/reroute/lowering.h"

namespace autoamp::reroute {

// `known`: a true function of the library that the application called. A plan is built where a geometry is met for the
// first time in a context, never in capture.
Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const op::ConvolutionCall &call, const void *known, void *stream);

} // namespace autoamp::reroute
