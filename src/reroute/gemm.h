// How a matrix product is lowered: one cublasLtMatmul with fp32 accumulation and result, all on the call's own stream:
// of 16-bit copies of the operands, their scales settled, or of the operands as they are. Raised: the same, of float16
// operands as they are, with a float16 result. Any thread; never waits for
// the device.
// Invariant: it declines before its GEMM is enqueued (until then only memory of ours was touched), or it finishes.
#pragma once

#include "src/op/lt_matmul.h"
#include "src/op/op.h"
#include "src/policy/decision.h"
#include "src/reroute/engine.h"
#include "src/scale/slots.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

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

struct Settings {
	size_t memoryBudget = 0;
	bool isScaling = true;
	bool isTold = true; // scaler events reach the host
};

// What is remembered for one signature (an Op): engines and refusals by alignment, the place in the event ring.
struct RnnWeights;
struct Plan {
	Engines engines;
	std::atomic<const RnnWeights *> weights{nullptr}; // of a recurrent net: where they lie
	std::atomic<uint64_t> accepted{0}; // hash of the algorithm that the application passed last and the vendor accepts
	std::atomic<unsigned long long> metIn{0}; // id of the last context that ran it, + 1
	uint64_t hash = 0;                        // of the Op; not 0
	uint32_t site = 0;                        // index in the event ring
};

// isDone: C is (being) computed and `status` is the answer. Otherwise the application's own call must go ahead, for
// `reason`. `failed` (either way): which step of ours failed, with `code`; null if none did.
struct Outcome {
	bool isDone = false;
	bool isCaptured = false;
	op::Status status = 0;
	policy::Reason reason =
	    policy::Reason::engine_failed; // if done: why the substitute ran, or why there was no workspace
	bool isSubstitute = false;         // the call ran by policy::Decision::substitute
	const char *failed = nullptr;
	int code = 0;
	uint64_t builtNs = 0; // what building an engine took that this call was the first to need
};

// As reroute::refusalOf() in engine.h, asked once for each algorithm, workspace and alignment in a row.
const char *refusalOf(Plan &plan, const op::CublasLt &lt, const op::Op &op, const op::LtMatmulCall &call);

Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const Product &product);

// Is `stream` being captured? False without a driver.
bool isCapturing(void *stream);

} // namespace autoamp::reroute
