// The decision: a pure function of the call, the configuration and the device. Nothing is asked, measured or
// remembered. Any thread.
#pragma once

#include "src/op/op.h"
#include "src/policy/cost_model.h"
#include "src/policy/decision.h"
#include "src/policy/lists.h"
#include "src/policy/options.h"
#include "src/policy/rules.h"

#include <array>

namespace autoamp::policy {

// What a lowered call becomes, and how.
struct Aim {
	op::Dtype dtype;
	StrategyChoice strategy;
	bool isScaling, tf32Allowed;
	bool isDemanded = false; // by a rule: in this precision, gain or not

	bool scaled() const { return dtype == op::Dtype::float16 && isScaling; } // verified scaling
};

// The configuration as a decision needs it. Made once, shared by all threads.
struct State : Aim {
	explicit State(const Options &options = {});

	bool enabled, observeOnly;
	bool isRegionOff = false; // a region that disables, or outside of all where they alone are meant (AUTOAMP_SCOPE)
	NameSet customWhite, customBlack;
	ListChoice lists;
	Category category[callRowCount]; // by op::Kind
	std::shared_ptr<const Rules> rules;
};

// What the lists say of a call that could be lowered. Custom black beats custom white beats the list system's own.
struct Listing {
	Reason reason;
	bool isLowered;
};
Listing listed(const op::Op &op, const State &state);

struct Device {
	const Gpu *gpu;              // constants of the cost model
	int computeCapability;       // of the device itself, whatever the constants are: 75, 80, 90, ...
	bool canLoadKernels;         // the driver accepts our fat binary
	bool isThere = true;         // false: no driver at all
	size_t cudnnVersion = 91900; // of the copy in use

	static constexpr int oldestDriver = 13000; // that does, by cuDriverGetVersion
	bool hasTf32() const { return computeCapability >= 80; }
	bool hasBfloat16() const { return computeCapability >= 80; }
};

// One way to run a call that the lists allow to be lowered.
struct Way {
	Strategy strategy;
	op::Dtype precision;            // of the multiplication
	float estimate = -1;            // ns by the cost model; negative: no fp32 product, or not this way
	Reason why = Reason::count;     // what keeps calls from it; count: nothing
	op::Form form = op::Form::wide; // of a convolution

	bool isAvailable() const { return why == Reason::count; }
};
// Every way, by Strategy; the one of fp32 is as asked (perhaps TF32 already) and always there.
using Ways = std::array<Way, strategyCount>;
Ways waysOf(const op::Op &op, const Aim &aim, const Device &device);

// That of a call which `rule` matches (null: none). A strategy that has no such precision gives way to one that has.
Aim aimOf(const State &state, const Rule *rule);

// How the call shall run: lowered; raised, that is its float16 products summed in fp32, where a list or a rule says
// that it runs in fp32, or in fp32 where the application allows less and a rule does not; or as it was asked. `lowered`
// and `raised` are intentions: what follows may still decline, with its own reason (`fallback`). At O0 the verdict is
// `observed`; reason and strategy then say what O1 would have done (strategy fp32: kept), while precision says what
// happens: as asked. The estimates are there for every fp32 product, whatever the verdict: estimateLowered is that of
// the chosen way, of a kept call the best that it could have had.
// The argument, mode or feature of the call behind the reason; `none` where the reason is complete by itself.
op::Cause causeOf(const op::Op &op, Reason reason);

Decision decide(const op::Op &op, const State &state, const Where &where, const Device &device);

} // namespace autoamp::policy
