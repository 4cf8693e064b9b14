// Lowers a matrix product to one cublasLtMatmul with fp32 accumulation and result, on the stream of the call. It
// multiplies 16-bit copies of the operands (with settled scales for float16), or the application's operands. A raised
// product multiplies float16 operands without a copy and has a float16 result. Any thread; never waits for the device.
// Invariant: it completes, or it declines before it writes application memory. The exception is an operand sum (BGRADA,
// BGRADB), which the application's own call overwrites.
#pragma once

#include "src/op/lt_matmul.h"
#include "src/op/op.h"
#include "src/policy/decision.h"
#include "src/reroute/lowering.h"

namespace autoamp::reroute {

// One product, in the form that all entry-point wrappers use.
struct Product {
	void *lightHandle = nullptr; // a cublasLtHandle_t, or a cublasHandle_t, which cuBLASLt accepts too
	const void *known = nullptr; // an original function of the library that the application called
	void *stream = nullptr;
	const void *alpha = nullptr, *A = nullptr, *B = nullptr, *beta = nullptr, *C = nullptr;
	void *D = nullptr;
	op::LtExtras extras;
};

// As reroute::refusalOf() in engine.h. Repeated calls with the same algorithm, workspace and alignments query only
// once.
const char *refusalOf(Plan &plan, const op::CublasLt &lt, const op::Op &op, const op::LtMatmulCall &call);

Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const Product &product);

} // namespace autoamp::reroute
