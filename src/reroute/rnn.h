// How a recurrent net is lowered: bfloat16 copies of its data and weights, the vendor's own call on a net of ours that
// differs from the application's in its type alone, its results widened into the application's memory. All on the
// call's own stream. Any thread; never waits for the device.
// Invariant: it declines before anything of the application's was written that its own call would not write anew, or it
// finishes. A way back from a reserve space in bfloat16, which nobody else can read, fails then.
#pragma once

#include "src/reroute/lowering.h"

namespace autoamp::reroute {

// At every call: of a way back the op::Flag that says what its reserve space holds; a way there, which makes another
// one, has it forgotten: 0, but where one was captured with that space, all that follow are as that, which is as the
// space was.
uint16_t meetReserve(const op::RnnCall &call, const op::Op &op, void *stream);

// What a call answers that cannot be lowered and must not run as it was asked; 0: it may.
op::Status refusalOf(const op::RnnCall &call, const op::Op &op);

// `known`: a true function of the library that the application called.
Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const op::RnnCall &call, const void *known, void *stream);

} // namespace autoamp::reroute
