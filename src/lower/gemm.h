// Lowers a matrix product to one cublasLtMatmul with fp32 accumulation and result, on the stream of the call. It
// multiplies 16-bit copies of the operands (with settled scales for float16), or the application's operands. A raised
// product multiplies float16 operands without a copy and has a float16 result. Any thread; never waits for the device.
// Invariant: it completes, or it declines before it writes application memory. The exception is an operand sum (BGRADA,
// BGRADB), which the application's own call overwrites.
#pragma once

#include "src/lower/lowering.h"
#include "src/op/arguments.h"

namespace autoamp::lower {

struct LoweredCall;

Outcome lower(LoweredCall &lowered, const op::GemmCall &call);
Outcome lower(LoweredCall &lowered, const op::LtMatmulCall &call);

} // namespace autoamp::lower
