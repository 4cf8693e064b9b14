// The decision: a pure function of the call, the configuration and the device. It queries, measures and stores nothing.
// Any thread.
#pragma once

#include "src/config/options.h"
#include "src/config/rules.h"
#include "src/lists/lists.h"
#include "src/op/op.h"
#include "src/policy/cost_model.h"
#include "src/policy/cpu_model.h"
#include "src/policy/decision.h"

#include <array>

namespace autoamp::policy {

// Target of a lowering: precision and method.
struct Target {
	op::Dtype dtype;
	StrategyChoice strategy;
	Scaling scaling;
	bool tf32Allowed;
	op::Dtype dtypeOnCpu = op::Dtype::bfloat16;
	Weights weights = Weights::off, weightsOnCpu = Weights::watched; // of CUDA calls, of CPU calls
	bool isDemanded = false; // by a rule: use this precision even without a gain

	Scaling scalingOfCast() const { return dtype == op::Dtype::float16 ? scaling : Scaling::off; }
};

// The configuration in the form that decisions need. Created once, shared by all threads.
struct State : Target {
	explicit State(const Options &options = {});

	bool enabled, observeOnly;
	bool isRegionOff =
	    false; // in a region that disables autoamp, or outside of all regions if AUTOAMP_SCOPE requires one
	NameSet customWhite, customBlack;
	ListChoice lists;
	// By op::Kind, for calls on a GPU and on a CPU.
	Category category[callRowCount], categoryOnCpu[callRowCount];
	std::shared_ptr<const Rules> rules;
};

// Decision of the lists about a call that could be lowered. The custom black list overrides the custom white list,
// which overrides the lists of the framework.
struct Listing {
	Reason reason;
	bool isLowered;
};
Listing listed(const op::Op &op, const State &state);

struct Device {
	const Gpu *gpu;              // constants of the cost model; not read for a CPU
	int computeCapability;       // capability of the device itself, independent of `gpu`: 75, 80, 90, ...
	bool canLoadKernels;         // autoamp has kernels for the device, and the driver is new enough to load them
	bool hasDriver = true;       // false: no driver at all
	size_t cudnnVersion = 91900; // version of the copy in use
	const Cpu *cpu = nullptr;    // for calls of a CPU BLAS, and only for these

	bool hasTf32() const { return computeCapability >= 80; }
	bool hasBfloat16() const { return computeCapability >= 80; }
};

// One method to run a call that the lists allow to be lowered.
struct Candidate {
	Strategy strategy;
	op::Dtype precision;            // precision of the multiplication
	float estimate = -1;            // ns by the cost model; negative: not an fp32 product, or not possible
	Reason why = Reason::count;     // why calls cannot use it; count: no obstacle
	op::Form form = op::Form::wide; // for a convolution
	bool needsKept = false;         // on a CPU: the estimate is that of a kept weight
	float saved = 0;                // on a CPU: as in Decision
	Weights weights = Weights::off; // for a cast: the mode that the estimate assumes, which the call uses

	bool isAvailable() const { return why == Reason::count; }
};
// All candidates, by Strategy. The fp32 candidate runs the call unchanged (perhaps already in TF32) and is always
// available.
using Candidates = std::array<Candidate, strategyCount>;
Candidates candidatesFor(const op::Op &op, const Target &target, const Device &device);

// The target of a call that matches `rules`. If the strategy does not support the precision, another strategy is
// chosen.
Target targetFor(const State &state, const RulesOfCall &rules);

// The reason why no copy of a weight is kept for a CUDA call that is cast to the target.
WeightObstacle obstacleToKeeping(const op::Op &op, const Target &target);

// The argument, mode or feature of the call that caused `reason`; `none` if the reason needs no cause.
op::Cause causeOf(const op::Op &op, Reason reason);

// Decides how the call runs. lowered: in lower precision. raised: a list or a rule requires fp32, so float16 products
// are summed in fp32; or a rule requires fp32 although the application allows less. Otherwise the call runs unchanged.
// `lowered` and `raised` are intentions: later steps may decline with their own reason (`fallback`). At O0 the verdict
// is `observed`: reason and strategy describe the decision at O1 (strategy fp32: kept), and precision is that of the
// unchanged call. Every fp32 product has estimates, whatever the verdict: estimateLowered is that of the chosen
// candidate, for a kept call that of the best one, and for a raised one that of the product in fp32.
Decision decide(const op::Op &op, const State &state, const Where &where, const Device &device);

// For a CPU call that runs unchanged: true if all calls of these sizes do, with any number of threads.
bool dependsOnSizesOnly(const Decision &decision, const op::Op &op, const Cpu &cpu);

} // namespace autoamp::policy
