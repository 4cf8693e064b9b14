// How a matrix product is lowered: one cublasLtMatmul with fp32 accumulation and result, all on the call's own stream:
// of 16-bit copies of the operands, their scales settled, or of the operands as they are. Raised: the same, of float16
// operands as they are, with a float16 result. Any thread; never waits for
// the device.
// Invariant: it declines before its GEMM is enqueued (until then only memory of ours was touched), or it finishes.
#pragma once

#include "src/op/lt_matmul.h"
#include "src/op/op.h"
#include "src/policy/decision.h"
#include "src/reroute/lowering.h"

namespace autoamp::reroute {

// One product as every door brings it.
struct Product {
	void *lightHandle = nullptr; // a cublasLtHandle_t, or a cublasHandle_t, which may stand for one
	const void *known = nullptr; // a true function of the library that the application called
	void *stream = nullptr;
	const void *alpha = nullptr, *A = nullptr, *B = nullptr, *beta = nullptr, *C = nullptr;
	void *D = nullptr;
	op::LtExtras extras;
};

// As reroute::refusalOf() in engine.h, asked once for each algorithm, workspace and alignment in a row.
const char *refusalOf(Plan &plan, const op::CublasLt &lt, const op::Op &op, const op::LtMatmulCall &call);

Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const Product &product);

} // namespace autoamp::reroute
