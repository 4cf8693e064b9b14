// The decision: a pure function of the call, the configuration and the device. Nothing is asked, measured or
// remembered. Any thread.
#pragma once

#include "src/op/op.h"
#include "src/policy/cost_model.h"
#include "src/policy/decision.h"
#include "src/policy/lists.h"
#include "src/policy/options.h"

namespace autoamp::policy {

// The configuration as a decision needs it. Made once, shared by all threads.
struct State {
	explicit State(const Options &options = {});

	bool enabled, observeOnly;
	bool scaled; // float16 with verified scaling
	op::Dtype dtype;
	StrategyChoice strategy;
	NameSet customWhite, customBlack;
	Category category[kindCount]; // by op::Kind
};

struct Device {
	const Gpu *gpu;        // constants of the cost model
	int computeCapability; // of the device itself, whatever the constants are: 75, 80, 90, ...
	bool canLoadKernels;   // the driver accepts our fat binary

	static constexpr int oldestDriver = 13000; // that does, by cuDriverGetVersion
	bool hasTf32() const { return computeCapability >= 80; }
	bool hasBfloat16() const { return computeCapability >= 80; }
};

// How the call shall run. `lowered` is an intention: what follows may still decline, with its own reason (`fallback`).
// At O0 the verdict is `observed`; reason and strategy then say what O1 would have done (strategy cast: lowered), while
// precision says what happens: as asked. The estimates are there for every fp32 product, whatever the verdict.
Decision decide(const op::Op &op, const State &state, const Device &device);

} // namespace autoamp::policy
