// Lowers a convolution: makes 16-bit channels-last copies of its operands (with settled scales for float16) and runs
// one cuDNN plan built by autoamp (op/shadow.h). A kernel copies the result to the application's layout, unless the
// plan can write there. Runs on the stream of the call. Any thread; never waits for the device.
// Invariant: it completes, or it declines before it writes application memory.
#pragma once

#include "src/reroute/lowering.h"

namespace autoamp::reroute {

// `known`: an original function of the library that the application called. A plan is built at the first call of a
// geometry in a context, never during capture.
Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const op::ConvolutionCall &call, const void *known, void *stream);

} // namespace autoamp::reroute
