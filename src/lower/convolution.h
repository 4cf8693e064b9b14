// Lowers a convolution: makes 16-bit channels-last copies of its operands (with settled scales for float16) and runs
// one cuDNN plan built by autoamp (op/shadow.h). A kernel copies the result to the application's layout, unless the
// plan can write there. Runs on the stream of the call. Any thread; never waits for the device.
// Invariant: it completes, or it declines before it writes application memory.
#pragma once

#include "src/lower/lowering.h"
#include "src/op/arguments.h"
#include "src/op/vendor.h"

namespace autoamp::lower {

struct LoweredCall;

Outcome lower(LoweredCall &lowered, const op::ConvolutionCall &call);

// Done unless a test of the tensor cast and of a cuDNN plan has failed, or could not run (self_test.h).
Outcome requireConvolutionTest(const LoweredCall &lowered, const op::CudnnGraph &cudnn, void *handle);

} // namespace autoamp::lower
