// A lowered call from outside: its settings, the cached state of its signature, its outcome. Any thread.
#pragma once

#include "src/op/op.h"
#include "src/policy/decision.h"
#include "src/reroute/engine.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace autoamp::reroute {

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

} // namespace autoamp::reroute
