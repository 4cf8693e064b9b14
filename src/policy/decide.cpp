#include "src/policy/decide.h"

namespace autoamp::policy {

namespace {

// The model errs by some percent: what promises less than this is as likely to lose.
constexpr double gainWanted = 1.05;

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
		SAME(batched_pointers);
		SAME(grouped);
		SAME(factorization);
		SAME(host_blocked);
#undef SAME
	case op::Obstacle::none:
		break;
	}
	return Reason::count;
}

bool isLow(op::Dtype type)
{
	return type == op::Dtype::float16 || type == op::Dtype::bfloat16;
}

// Why the operands themselves, or the sizes, leave nothing to lower; `count`: they do not.
Reason obstacleOfData(const op::Op &op)
{
	using op::Dtype;
	if (op.a != Dtype::float32 || op.b != Dtype::float32) {
		if (op.a == Dtype::float64 || op.b == Dtype::float64)
			return Reason::float64;
		if (op.a == Dtype::complex64 || op.b == Dtype::complex64)
			return Reason::complex;
		return isLow(op.a) && isLow(op.b) ? Reason::already_low : Reason::not_float32;
	}
	if (op.out != Dtype::float32)
		return Reason::not_float32;
	if (isLow(op.asked))
		return Reason::already_low;
	if (op.m < 0 || op.n < 0 || op.k < 0 || op.batch < 0)
		return Reason::bad_argument;
	if (op.m == 0 || op.n == 0 || op.k == 0 || op.batch == 0 || (op.flags & op::flagAlphaZero))
		return Reason::zero_size;
	return Reason::count;
}

Reason obstacleOfDevice(const State &state, const Device &device)
{
	if (device.computeCapability < 75 || (state.dtype == op::Dtype::bfloat16 && !device.hasBfloat16()))
		return Reason::gpu_too_old;
	return device.canLoadKernels ? Reason::count : Reason::driver_too_old;
}

struct Choice {
	Strategy strategy;
	Reason reason;
};

// What the lists say of a call that could be lowered. Custom black beats custom white beats the list system's own.
Choice chooseByLists(const op::Op &op, const State &state)
{
	if (state.customBlack.has(op))
		return {Strategy::fp32, Reason::custom_black_list};
	if (op.kind == op::Kind::none) // no product: nothing could lower it, whoever names it
		return {Strategy::fp32, Reason::unlisted};
	if (state.customWhite.has(op))
		return {Strategy::cast, Reason::custom_white_list};
	switch (state.category[static_cast<unsigned>(op.kind)]) {
	case Category::lower_precision:
		return {Strategy::cast, Reason::white_list};
	case Category::fp32:
		return {Strategy::fp32, Reason::black_list};
	case Category::promote: // the widest type of the operands: fp32
		return {Strategy::fp32, Reason::promote};
	case Category::banned:
		return {Strategy::fp32, Reason::banned};
	case Category::unlisted:
		break;
	}
	return {Strategy::fp32, Reason::unlisted};
}

// `cost` is read for fp32 products only.
Choice choose(const op::Op &op, const State &state, const Device &device, const Cost &cost)
{
	Reason obstacle = reasonOf(op.obstacle);
	if (obstacle == Reason::count)
		obstacle = obstacleOfData(op);
	if (obstacle == Reason::count)
		obstacle = obstacleOfDevice(state, device);
	if (obstacle != Reason::count)
		return {Strategy::fp32, obstacle};

	Choice choice = chooseByLists(op, state);
	if (choice.strategy == Strategy::fp32 || state.strategy == StrategyChoice::cast)
		return choice;
	if (state.strategy == StrategyChoice::fp32)
		return {Strategy::fp32, Reason::disabled};
	if (cost.asked <= cost.launches)
		return {Strategy::fp32, Reason::too_small};
	if (cost.asked < gainWanted * cost.lowered)
		return {Strategy::fp32, Reason::not_profitable};
	return choice;
}

} // namespace

State::State(const Options &options)
    : enabled(options.enabled), observeOnly(options.level == Level::O0),
      scaled(options.dtype == op::Dtype::float16 && options.scaling == Scaling::automatic), dtype(options.dtype),
      strategy(options.strategy), customWhite(options.customWhite), customBlack(options.customBlack)
{
	for (unsigned kind = 0; kind < kindCount; ++kind)
		category[kind] = policy::category(static_cast<op::Kind>(kind));
}

Decision decide(const op::Op &op, const State &state, const Device &device)
{
	bool isTf32 = op.asked == op::Dtype::tf32 && device.hasTf32();
	Decision decision;
	decision.precision = op.asked == op::Dtype::tf32 && !isTf32 ? op::Dtype::float32 : op.asked;
	if (!state.enabled) {
		decision.reason = Reason::disabled;
		return decision;
	}

	bool isProduct = op.kind != op::Kind::none && op.a == op::Dtype::float32 && op.b == op::Dtype::float32 &&
	                 op.m > 0 && op.n > 0 && op.k > 0 && op.batch > 0;
	Cost cost = {};
	if (isProduct) {
		cost = estimate(*device.gpu, op, isTf32 ? Path::tf32 : Path::fp32, state.scaled);
		decision.estimate = static_cast<float>(cost.asked);
		decision.estimateLowered = static_cast<float>(cost.lowered);
	}

	Choice choice = choose(op, state, device, cost);
	decision.strategy = choice.strategy;
	decision.reason = choice.reason;
	if (state.observeOnly) {
		decision.verdict = Verdict::observed;
	} else if (choice.strategy == Strategy::cast) {
		decision.verdict = Verdict::lowered;
		decision.precision = state.dtype;
	}
	return decision;
}

} // namespace autoamp::policy
