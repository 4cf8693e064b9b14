// Lowers a recurrent network (RNN): makes bfloat16 copies of its data and weights, and calls the same cuDNN function
// with an RNN descriptor that differs only in its type. A kernel widens the results into application memory. Runs on
// the stream of the call. Any thread; never waits for the device.
// Invariant: it completes, or it declines after it wrote only application memory that the application's own call writes
// again. If a backward pass on a bfloat16 reserve space declines, the call fails: the application's own call cannot
// read this space.
#pragma once

#include "src/lower/lowering.h"
#include "src/op/arguments.h"

namespace autoamp::lower {

struct LoweredCall;

// Must be called for every RNN call. For a backward pass, returns the op::Flag for the contents of its reserve space. A
// training forward pass overwrites the space: its entry is reset, and the function returns 0. After a capture with this
// space, all later forward passes of the same RNN keep the form that the space had then; the function returns its
// op::Flag.
uint16_t updateReserve(const op::RnnCall &call, const op::Op &op, void *stream);

// Status of a call that cannot be lowered and must not run unchanged; 0: it may run unchanged.
op::Status refusalOf(const op::RnnCall &call, const op::Op &op);

Outcome lower(LoweredCall &lowered, const op::RnnCall &call);

} // namespace autoamp::lower
