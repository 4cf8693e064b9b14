// Settings of lowered calls, the cached state of a signature, and the outcome of a call. Any thread.
#pragma once

#include "src/lower/engine.h"
#include "src/op/op.h"
#include "src/policy/decision.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace autoamp::lower {

struct Settings {
	size_t memoryBudget = 0;
	bool isScaling = true;
	bool isStrict = false;         // float16 products are checked and mended; then isScaling
	bool roundsOutput = false;     // results of 16-bit calls are rounded through their type
	bool reportsEvents = true;     // scaler events reach the host
	bool estimatesWeights = false; // operands are observed although no copies are kept
	uint32_t auditPeriod = 0;      // one call in this many is audited; 0: none
	const char *directory = "";    // for the results of self-tests; "": none
};

// Devices on which a self-test failed (self_test.h).
constexpr unsigned deviceLimit = 64;
inline constinit std::atomic<bool> hasFailedTest[deviceLimit] = {};

// Base of the data that a family computes once for a signature.
struct FamilyData {
};

// Cached state of one signature (an Op): engines and refusals by alignment, index in the event ring.
struct SiteCache {
	Engines engines;
	std::atomic<const FamilyData *> data{nullptr};
	std::atomic<uint64_t> accepted{0}; // hash (convolution: id and workspace size) of the last accepted algorithm
	std::atomic<unsigned long long> lastContextId{0}; // id of the last context that ran it, + 1
	std::atomic<uint64_t> audited{0};                 // calls outside of a capture that could be audited
	uint64_t hash = 0;                                // hash of the Op; not 0
	uint32_t site = 0;                                // index in the event ring
};

// Use of one operand of at least 1 MiB in a call (kept_operands.h). All members are empty for other operands.
struct WeightUse {
	policy::Weights how = policy::Weights::off; // checked or frozen: the product used a kept copy
	const char *reason = nullptr;               // why it used none: a word for reports
	bool isServed = false;                      // the copy had been made by an earlier call
	bool isMade = false, isGivenUp = false;
	bool isRefused = false; // a copy was to be made, and there was no memory for it (event `refused`)
	uint64_t bytes = 0;     // size of the copy that was used, made, given up or refused
	uint64_t held = 0;      // made: size of all copies of the context, with this one
	uint32_t compared = 0,
	         repeated = 0;   // fingerprints since the last call that reported them, and those that were equal
	uint32_t unreported = 0; // changes of a frozen operand, found since its last call, that had no event
};

// isDone: the result is computed or enqueued, and `status` goes to the application. Otherwise the application's own
// call must run, because of `reason`. In both cases `failed` names the step of autoamp that failed, with its `code`;
// null if none did.
struct Outcome {
	bool isDone = false;
	bool isCaptured = false;
	op::Status status = 0;
	policy::Reason reason =
	    policy::Reason::engine_failed; // if done: why the substitute ran, or why there was no workspace
	bool isSubstitute = false;         // the call ran by policy::Decision::substitute
	const char *failed = nullptr;
	int code = 0;
	uint64_t builtNs = 0;                  // time that this call spent on building a plan
	uint64_t auditTicks = 0;               // time that an audit took on the host, which is not part of the call
	const char *unaudited = nullptr;       // reason why a call that was to be audited was not
	std::array<WeightUse, 2> weights = {}; // by operand, as the call names them: A, B
};

inline Outcome decline(policy::Reason reason, const char *failed = nullptr, int code = 0)
{
	Outcome outcome;
	outcome.reason = reason, outcome.failed = failed, outcome.code = code;
	return outcome;
}

inline Outcome completed()
{
	Outcome outcome;
	outcome.isDone = true;
	return outcome;
}

} // namespace autoamp::lower
