#include "src/policy/decide.h"

namespace autoamp::policy {

namespace {

// `auto` lowers a call only if the model predicts at least this gain over the precision that the program requested. The
// model has an error of a few percent, and its launch times and gaps one of about a microsecond: a smaller gain is as
// likely to be a loss, but it always costs accuracy.
constexpr double leastRatio = 1.05, leastGainNs = 1000;

constexpr bool isGain(double requestedNs, double loweredNs)
{
	return requestedNs >= leastRatio * loweredNs && requestedNs - loweredNs >= leastGainNs;
}

// The same for a CPU: times of products that are bound by memory differ by more between machines and between runs, and
// the bookkeeping of a lowered call takes part of a microsecond.
constexpr double leastCpuRatio = 1.1;
constexpr double smallCpuNs = 2000; // more than the conversion: less work than this is too small

constexpr bool isCpuGain(const Cpu &cpu, double requestedNs, double loweredNs)
{
	return requestedNs >= leastCpuRatio * loweredNs && requestedNs - loweredNs >= cpu.leastGain;
}

constexpr Reason reasonOf(op::Obstacle obstacle)
{
	switch (obstacle) {
#define SAME(name)                                                                                                     \
	case op::Obstacle::name:                                                                                           \
		return Reason::name
		SAME(not_float32);
		SAME(float64);
		SAME(already_low);
		SAME(emulated_fp32);
		SAME(zero_size);
		SAME(bad_argument);
		SAME(pedantic);
		SAME(vendor_caller);
		SAME(solver_caller);
		SAME(unsupported);
		SAME(vector_op);
		SAME(matrix_vector);
		SAME(triangular);
		SAME(rank_update);
		SAME(symmetric);
		SAME(complex);
		SAME(copy);
		SAME(grouped);
		SAME(factorization);
		SAME(host_blocked);
		SAME(no_fp32_output);
		SAME(graph);
		SAME(native_graph);
		SAME(unknown_graph);
		SAME(unseen_graph);
		SAME(softmax);
		SAME(normalization);
		SAME(pooling);
		SAME(elementwise);
		SAME(reduction);
		SAME(loss);
		SAME(sampling);
#undef SAME
	case op::Obstacle::none:
		break;
	}
	return Reason::count;
}

// The reason if operands or sizes leave nothing to lower; otherwise `count`.
Reason obstacleOfData(const op::Op &op)
{
	using op::Dtype;
	if (op.a != Dtype::float32 || op.b != Dtype::float32) {
		if (op.a == Dtype::float64 || op.b == Dtype::float64)
			return Reason::float64;
		if (op::isComplex(op.a) || op::isComplex(op.b))
			return Reason::complex;
		return op::isLow(op.a) && op::isLow(op.b) ? Reason::already_low : Reason::not_float32;
	}
	if (op.out != Dtype::float32)
		return Reason::not_float32;
	if (op::isLow(op.asked))
		return Reason::already_low;
	if (op.m < 0 || op.n < 0 || op.k < 0 || op.batch < 0)
		return Reason::bad_argument;
	if (op.m == 0 || op.n == 0 || op.k == 0 || op.batch == 0 || (op.flags & op::flagAlphaZero))
		return Reason::zero_size;
	return Reason::count;
}

// The reason why a strategy is not available for any call; `count`: it is available.
Reason obstacleOf(Strategy strategy, const Target &target, const Device &device)
{
	using op::Dtype;
	const bool isCast = strategy == Strategy::cast, isTf32 = strategy == Strategy::tf32;
	if (device.cpu) {
		if (!isCast)
			return Reason::disabled;
		return target.dtypeOnCpu != Dtype::bfloat16 ? Reason::unsupported
		       : device.cpu->hasBfloat16            ? Reason::count
		                                            : Reason::cpu_too_old;
	}
	if (isTf32 ? target.isDemanded && target.dtype != Dtype::tf32 : target.dtype == Dtype::tf32)
		return Reason::disabled;
	// The vendor library rounds without autoamp's scale (float16) and clamp (bfloat16): only if the user selects this
	// strategy.
	if (strategy == Strategy::library && target.strategy != StrategyChoice::library)
		return Reason::disabled;
	if (isTf32 && !target.tf32Allowed)
		return Reason::disabled;
	const bool hasType = isTf32 ? device.hasTf32() : target.dtype == Dtype::float16 || device.hasBfloat16();
	if (device.computeCapability < 75 || !hasType)
		return Reason::gpu_too_old;
	return device.hasDriver && (device.canLoadKernels || !isCast) ? Reason::count : Reason::driver_too_old;
}

// The component that decides, and its decision: a region, a rule or the lists. `rule`: the one that decides the
// precision.
Listing listingFor(const op::Op &op, const Rule *rule, const State &state)
{
	if (state.isRegionOff)
		return {Reason::region_disabled, false};
	return rule ? Listing{Reason::rule, rule->precision != op::Dtype::float32} : listed(op, state);
}

// The candidate of the selected strategy, or else the fastest available; if no candidate is available, the default for
// the dtype.
const Candidate &bestOf(const op::Op &op, const Candidates &candidates, const Target &target)
{
	const auto of = [&candidates](Strategy strategy) { return &candidates[static_cast<size_t>(strategy)]; };
	switch (target.strategy) {
	case StrategyChoice::cast:
		return *of(Strategy::cast);
	case StrategyChoice::library:
		return *of(Strategy::library);
	case StrategyChoice::tf32:
		return *of(Strategy::tf32);
	case StrategyChoice::automatic:
	case StrategyChoice::fp32:
		break;
	}
	if (op.library == op::Library::blas)
		return *of(Strategy::cast);
	const Candidate *best = of(target.dtype == op::Dtype::tf32 ? Strategy::tf32 : Strategy::cast);
	for (const Candidate *candidate = of(Strategy::cast); candidate != candidates.end(); ++candidate)
		if (candidate->isAvailable() && (!best->isAvailable() || candidate->estimate < best->estimate))
			best = candidate;
	// If the vendor library has no engine for the type, TF32 remains, which the call may allow already. If bfloat16 has
	// an engine, the reason must remain no_fp32_output.
	const Candidate *const tf32 = of(Strategy::tf32);
	const bool isLeft = !(op::limitsOf(op.kind) & op::lacksHalf) && best->why == Reason::no_fp32_output &&
	                    tf32->why == Reason::already_low && !target.isDemanded;
	return isLeft ? *tf32 : *best;
}

// TF32 reads the operands in place. Null: not possible, or no gain. cuDNN needs no substitute: its default math is
// TF32.
const Candidate *substituteOf(const op::Op &op, const Candidates &candidates)
{
	const Candidate &tf32 = candidates[static_cast<size_t>(Strategy::tf32)];
	const bool isFaster = tf32.isAvailable() && candidates[0].estimate >= leastRatio * tf32.estimate;
	return isFaster && op.library != op::Library::cudnn ? &tf32 : nullptr;
}

struct Choice {
	Strategy strategy;
	Reason reason;
	Verdict verdict; // at O1
};

Choice keep(Reason reason)
{
	return {Strategy::fp32, reason, Verdict::kept};
}

Reason obstacleToRaising(const op::Op &op)
{
	const Reason obstacle = reasonOf(op.obstacle);
	if (obstacle != Reason::already_low && obstacle != Reason::count)
		return obstacle;
	// The vendor library computes the sum of an operand from rounded values.
	const bool sums = op::epilogueEffects(op) & op::sumsOperand;
	return sums || (op::limitsOf(op.kind) & op::lacksFp32) ? Reason::unsupported : Reason::count;
}

Reason obstacleToLowering(const op::Op &op)
{
	const Reason obstacle = op.flags & op::flagHalfSums ? Reason::already_low : reasonOf(op.obstacle);
	return obstacle == Reason::count ? obstacleOfData(op) : obstacle;
}

// `listing`: the decision of the region, the rules or the lists.
Choice choose(const op::Op &op, const Listing &listing, const Target &target, const Device &device,
              const Candidates &candidates, const Candidate &best)
{
	const auto [reason, isLowered] = listing;
	const bool isFp32 =
	    reason == Reason::black_list || reason == Reason::custom_black_list || (reason == Reason::rule && !isLowered);
	// A list only keeps autoamp from lowering an op: TF32 and FAST_16F that the application requested stay. A float32
	// rule requires fp32.
	const bool isNarrowed = op.a == op::Dtype::float32 && candidates[0].precision != op::Dtype::float32;
	const bool isHalf = op.flags & op::flagHalfSums,
	           isRaised = isFp32 && (isHalf || (isNarrowed && reason == Reason::rule));
	if (const Reason obstacle = isRaised ? obstacleToRaising(op) : obstacleToLowering(op); obstacle != Reason::count)
		return keep(obstacle);
	if (!isLowered && !isRaised)
		return keep(reason);
	if (target.strategy == StrategyChoice::fp32)
		return keep(Reason::disabled);
	if (isRaised)
		return {Strategy::fp32, reason, Verdict::raised};
	const bool isCpu = device.cpu;
	if (!best.isAvailable()) // on a CPU, disabled is a method of CUDA calls
		return keep(isCpu && best.why == Reason::disabled ? Reason::unsupported : best.why);
	const float asked = candidates[0].estimate;
	if (target.strategy != StrategyChoice::automatic || target.isDemanded ||
	    (isCpu ? best.saved < 0 || isCpuGain(*device.cpu, asked, best.estimate) : isGain(asked, best.estimate)))
		return op.flags & op::flagMustNotBeLow ? keep(Reason::reserve_space)
		                                       : Choice{best.strategy, reason, Verdict::lowered};
	const bool canCast = candidates[static_cast<size_t>(Strategy::cast)].isAvailable();
	const double fixed = isCpu ? device.cpu->rates[static_cast<size_t>(CpuPath::converted)].call + smallCpuNs
	                           : launchTime(*device.gpu, target.scalingOfCast());
	const bool isSmall = canCast && asked <= fixed;
	return keep(isSmall ? Reason::too_small : Reason::not_profitable);
}

} // namespace

State::State(const Options &options)
    : Target{options.dtype,      options.strategy, options.scaling,     options.tf32Allowed,
             options.dtypeOnCpu, options.weights,  options.weightsOnCpu},
      enabled(options.enabled), observeOnly(options.level == Level::O0), customWhite(options.customWhite),
      customBlack(options.customBlack), lists{options.lists, options.level, options.dtype, options.usePromote},
      rules(options.rules)
{
	if (observeOnly && options.lists == Lists::paddle) // Paddle's O0 ignores custom lists
		customWhite = customBlack = {};
	const ListChoice listsOnCpu = {options.lists, options.level, dtypeOnCpu, options.usePromote, true};
	for (size_t row = 0; row < callRowCount; ++row) {
		category[row] = lists.category(callRows()[row]);
		categoryOnCpu[row] = listsOnCpu.category(callRows()[row]);
	}
}

Listing listed(const op::Op &op, const State &state)
{
	if (state.customBlack.has(op))
		return {Reason::custom_black_list, false};
	if (!op::isProduct(op.kind)) // cannot be lowered, even if a list names it
		return {Reason::unlisted, false};
	if (state.customWhite.has(op))
		return {Reason::custom_white_list, true};
	constexpr Reason reasons[] = {Reason::unlisted, Reason::white_list, Reason::black_list, Reason::promote,
	                              Reason::banned}; // by Category
	const bool isCpu = op.library == op::Library::blas;
	const Category category = (isCpu ? state.categoryOnCpu : state.category)[static_cast<unsigned>(op.kind)];
	return {reasons[static_cast<unsigned>(category)], state.lists.lowers(category)};
}

Target targetFor(const State &state, const RulesOfCall &rules)
{
	using op::Dtype;
	Target target = state;
	if (rules.weights) {
		target.weights = weightsOnGpu(*rules.weights->weights);
		target.weightsOnCpu = weightsOnCpu(*rules.weights->weights);
	}
	const Rule *const rule = rules.precision;
	if (!rule || rule->precision == Dtype::float32)
		return target;
	target.isDemanded = true;
	target.dtype = target.dtypeOnCpu = rule->precision;
	const bool isUnscaled = target.strategy == StrategyChoice::library &&
	                        target.scalingOfCast() != Scaling::off; // parseOptions() also refuses this
	const bool isOther = (target.dtype == Dtype::tf32) != (target.strategy == StrategyChoice::tf32);
	if (target.strategy != StrategyChoice::fp32 && (isOther || isUnscaled))
		target.strategy = StrategyChoice::automatic;
	return target;
}

namespace {

// The available form that is faster in the model. A 16-bit result is rounded once more: the narrow form must be faster
// by leastRatio.
op::Form formOf(const op::Op &op, const op::Convolution &convolution, const Target &target, const Device &device)
{
	const op::Forms forms = op::formsOf(convolution, target.dtype, device.computeCapability, device.cudnnVersion);
	const auto time = [&](op::Form form) {
		return estimate(*device.gpu, op, Path::half, target.scalingOfCast(), form);
	};
	if (forms.isWide && forms.isNarrow)
		return time(op::Form::wide) < leastRatio * time(op::Form::narrow) ? op::Form::wide : op::Form::narrow;
	return forms.isWide ? op::Form::wide : forms.isNarrow ? op::Form::narrow : op::Form::none;
}

// The vendor library narrows through a math type of the legacy API's descriptors, and only to float16. No engine for
// graphs does this.
bool canNarrow(const op::Op &op, op::Dtype precision)
{
	return op.library != op::Library::cudnn ||
	       (op::isConvolution(op.kind) && !op.graph && precision == op::Dtype::float16);
}

// The reason why an otherwise available candidate other than fp32 cannot run this call; `count`: it can.
Reason obstacleOf(const op::Op &op, const Candidate &candidate, const Target &target)
{
	const bool isCast = candidate.strategy == Strategy::cast;
	// Matrices behind pointer arrays may not have the alignment that fast kernels need. The sum of an operand is an
	// autoamp kernel, which may not be loadable if nothing is cast.
	if (!isCast && ((op.flags & op::flagArrays) || (op::epilogueEffects(op) & op::sumsOperand)))
		return Reason::unsupported;
	if (candidate.strategy == Strategy::library && !canNarrow(op, candidate.precision))
		return Reason::unsupported;
	if (isCast && op::isConvolution(op.kind) && candidate.form == op::Form::none)
		return Reason::no_fp32_output;
	const bool isHalf = candidate.precision == op::Dtype::float16;
	if (isHalf && (op::limitsOf(op.kind) & op::lacksHalf))
		return Reason::no_fp32_output;
	const bool isUnchecked = op.library == op::Library::cudnn && target.scalingOfCast() == Scaling::strict;
	return isCast && isUnchecked ? Reason::strict_scaling : Reason::count;
}

// Decision::saved of a product with this gain by bfloat16, in ns.
float savedBy(const op::Op &op, const Cpu &cpu, float gain, bool isLowered)
{
	if (isLowered)
		return cpuThreads(cpu, op, CpuPath::converted) > 1 ? gain : 0;
	// The model is not exact: the loss is larger than its estimate by the time that it takes to use threads.
	const float loss = std::max(-gain, 0.f) + static_cast<float>(cpu.fork);
	return cpuThreads(cpu, op, CpuPath::single) > 1 && loss <= mostSavedNs ? -loss : 0;
}

// The candidates of a call of a CPU BLAS: its own function, and a bfloat16 product.
void estimateOnCpu(Candidates &candidates, const op::Op &op, const Target &target, const Cpu &cpu)
{
	Candidate &single = candidates[0], &cast = candidates[static_cast<size_t>(Strategy::cast)];
	const auto time = [&](CpuPath path) { return static_cast<float>(cpuTime(cpu, op, path)); };
	single.estimate = time(CpuPath::single), cast.estimate = time(CpuPath::converted);
	cast.weights = target.weightsOnCpu;
	if (target.strategy != StrategyChoice::automatic || target.isDemanded)
		return;
	const bool isAlwaysGain = isCpuGain(cpu, single.estimate, cast.estimate);
	if (cpu.hasTwoPools)
		cast.saved = savedBy(op, cpu, single.estimate - cast.estimate, isAlwaysGain);
	if (target.weightsOnCpu == Weights::off || !hasWeight(op) || isAlwaysGain)
		return;
	if (const float kept = time(CpuPath::kept); isCpuGain(cpu, single.estimate, kept))
		cast.needsKept = true, cast.estimate = kept;
}

// A cast with a kept weight. If the model decides, only if that is faster than to convert the weight at each call.
void keepWeight(Candidate &cast, const op::Op &op, const Target &target, const Gpu &gpu)
{
	if (obstacleToKeeping(op, target) != WeightObstacle::none)
		return;
	const auto kept =
	    static_cast<float>(estimate(gpu, op, Path::half, target.scalingOfCast(), cast.form, target.weights));
	const bool isByModel = target.strategy == StrategyChoice::automatic && !target.isDemanded;
	if (!isByModel || kept < cast.estimate)
		cast.estimate = kept, cast.weights = target.weights;
}

} // namespace

WeightObstacle obstacleToKeeping(const op::Op &op, const Target &target)
{
	const op::Convolution *const convolution = op::isConvolution(op.kind) ? op::convolutionAt(op.geometry) : nullptr;
	if (target.weights == Weights::off)
		return WeightObstacle::off;
	if (op::isRecurrent(op.kind))
		return WeightObstacle::recurrent;
	if (op.graph && !op::isConvolution(op.kind))
		return WeightObstacle::graph;
	if (!convolution && (op.batch > 1 || (op.flags & op::flagArrays))) // the batch of a convolution: its groups
		return WeightObstacle::batched;
	if (convolution && convolution->direction == op::Direction::backwardFilter)
		return WeightObstacle::no_filter;
	if (target.scalingOfCast() == Scaling::strict)
		return WeightObstacle::strict_scaling;
	return keptElements(op) > 0 ? WeightObstacle::none : WeightObstacle::too_small;
}

Candidates candidatesFor(const op::Op &op, const Target &target, const Device &device)
{
	const op::Convolution *const convolution = op::isConvolution(op.kind) ? op::convolutionAt(op.geometry) : nullptr;
	const bool isTf32 = op.asked == op::Dtype::tf32 && device.hasTf32();
	Candidates candidates = {{{Strategy::fp32, op.asked == op::Dtype::tf32 && !isTf32 ? op::Dtype::float32 : op.asked},
	                          {Strategy::cast, device.cpu ? target.dtypeOnCpu : target.dtype},
	                          {Strategy::library, target.dtype},
	                          {Strategy::tf32, op::Dtype::tf32}}};
	const Path paths[] = {isTf32 ? Path::tf32 : Path::fp32, Path::half, Path::fast16, Path::tf32};
	const bool isProduct = op::isProduct(op.kind) && op.kind != op::Kind::mv && op.a == op::Dtype::float32 &&
	                       op.b == op::Dtype::float32 && op.m > 0 && op.n > 0 && op.k > 0 && op.batch > 0;
	for (Candidate &candidate : candidates) {
		const auto index = static_cast<size_t>(candidate.strategy);
		if (index > 0)
			candidate.why = isTf32 && candidate.strategy == Strategy::tf32
			                    ? Reason::already_low
			                    : obstacleOf(candidate.strategy, target, device);
		if (convolution && candidate.strategy == Strategy::cast && candidate.isAvailable())
			candidate.form = formOf(op, *convolution, target, device);
		if (index > 0 && candidate.isAvailable())
			candidate.why = obstacleOf(op, candidate, target);
		if (isProduct && !device.cpu && candidate.why != Reason::disabled)
			candidate.estimate =
			    static_cast<float>(estimate(*device.gpu, op, paths[index], target.scalingOfCast(), candidate.form));
	}
	Candidate &cast = candidates[static_cast<size_t>(Strategy::cast)];
	if (isProduct && !device.cpu && cast.isAvailable())
		keepWeight(cast, op, target, *device.gpu);
	if (isProduct && device.cpu)
		estimateOnCpu(candidates, op, target, *device.cpu);
	return candidates;
}

op::Cause causeOf(const op::Op &op, Reason reason)
{
	using op::Cause;
	switch (reason) {
	case Reason::already_low:
	case Reason::pedantic:
	case Reason::emulated_fp32:
		return op.cause;
	case Reason::unsupported:
		if (op.obstacle == op::Obstacle::unsupported)
			return op.cause;
		if (op.library == op::Library::blas)
			return Cause::cpu_type;
		return op.flags & op::flagArrays                   ? Cause::arrays
		       : op::epilogueEffects(op) & op::sumsOperand ? Cause::operand_sums
		       : op.library == op::Library::cudnn          ? Cause::dnn_math_type
		                                                   : Cause::none;
	default:
		return Cause::none;
	}
}

Decision decide(const op::Op &op, const State &state, const Where &where, const Device &device)
{
	Decision decision;
	if (!state.enabled) {
		decision.precision = op.asked == op::Dtype::tf32 && !device.hasTf32() ? op::Dtype::float32 : op.asked;
		decision.reason = Reason::disabled;
		return decision;
	}
	// A call that is not a product cannot be lowered, even if a rule matches it.
	const bool canBeMeant = op::isProduct(op.kind) && !state.isRegionOff;
	const RulesOfCall rules = canBeMeant ? state.rules->find(op, where) : RulesOfCall{};
	Target target = targetFor(state, rules);
	if (device.cpu && target.isDemanded && target.strategy != StrategyChoice::fp32)
		target.strategy = StrategyChoice::cast; // the other strategies are those of CUDA calls
	Candidates candidates = candidatesFor(op, target, device);
	if (state.observeOnly) // nothing saves time
		candidates[static_cast<size_t>(Strategy::cast)].saved = 0;
	const Candidate &best = bestOf(op, candidates, target);
	const Choice choice = choose(op, listingFor(op, rules.precision, state), target, device, candidates, best);
	decision.precision = candidates[0].precision;
	decision.estimate = candidates[0].estimate;
	decision.estimateLowered = best.estimate;
	decision.strategy = choice.strategy;
	decision.form = choice.strategy == Strategy::cast ? best.form : op::Form::none;
	decision.needsKept = choice.strategy == Strategy::cast && best.needsKept;
	decision.reason = choice.reason;
	decision.verdict = state.observeOnly ? Verdict::observed : choice.verdict;
	if (decision.verdict == Verdict::lowered)
		decision.precision = best.precision, decision.weights = best.weights, decision.saved = best.saved,
		decision.weightObstacle = obstacleToKeeping(op, target);
	else if (decision.verdict == Verdict::raised && op.a == op::Dtype::float32) {
		decision.precision = op.a;
		if (decision.estimate >= 0)
			decision.estimateLowered = static_cast<float>(estimate(*device.gpu, op, Path::fp32, Scaling::off));
	}
	if (decision.verdict == Verdict::lowered && decision.strategy == Strategy::cast)
		if (const Candidate *const substitute = substituteOf(op, candidates)) {
			decision.substitute = substitute->strategy;
			decision.estimateSubstitute = substitute->estimate;
		}
	// Regardless of a changed policy: only a lowered call can read that data.
	const bool isPossible = op.obstacle == op::Obstacle::none || op.obstacle == op::Obstacle::pedantic ||
	                        op.obstacle == op::Obstacle::already_low;
	if ((op.flags & op::flagMustBeLow) && isPossible &&
	    (decision.verdict != Verdict::lowered || decision.precision != op::Dtype::bfloat16)) {
		decision.verdict = Verdict::lowered, decision.reason = Reason::reserve_space;
		decision.strategy = Strategy::cast, decision.precision = op::Dtype::bfloat16;
	}
	return decision;
}

bool dependsOnSizesOnly(const Decision &decision, const op::Op &op, const Cpu &cpu)
{
	if (!decision.isUnchanged())
		return false;
	if (decision.reason != Reason::too_small && decision.reason != Reason::not_profitable)
		return true; // not decided by times
	Cpu one = cpu;   // with the slowest library
	one.threads = 1;
	one.librarySpeed = std::min(cpu.avx2Speed, cpu.olderSpeed);
	return cpuTime(one, op, CpuPath::single) < cpu.leastGain; // more than any gain
}

} // namespace autoamp::policy
