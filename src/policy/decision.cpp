#include "src/policy/decision.h"

#include <iterator>

namespace autoamp::policy {

namespace {

struct ReasonText {
	const char *name, *meaning, *advice;
};

constexpr ReasonText reasons[] = {
#define X(name, meaning, advice) {#name, meaning, advice},
    AUTOAMP_REASONS(X)
#undef X
};
constexpr const char *verdicts[] = {"kept", "lowered", "raised", "fallback", "observed"};
constexpr const char *strategies[strategyCount] = {"fp32", "cast", "library", "tf32"};

struct WeightText {
	const char *name, *meaning;
};

constexpr WeightText weightTexts[] = {
#define X(name, meaning) {#name, meaning},
    AUTOAMP_WEIGHT_OBSTACLES(X)
#undef X
};

// A value from a damaged trace may be outside of the table.
template <class Enum, class Row, size_t count>
const Row *row(const Row (&table)[count], Enum value)
{
	return static_cast<size_t>(value) < count ? &table[static_cast<size_t>(value)] : nullptr;
}

} // namespace

Decision Decision::substituted(Reason shortage) const
{
	Decision decision = *this;
	decision.strategy = substitute;
	decision.substitute = Strategy::fp32;
	decision.reason = shortage;
	if (decision.strategy == Strategy::tf32)
		decision.precision = op::Dtype::tf32;
	decision.form = op::Form::none;
	decision.weights = Weights::off;
	decision.estimateLowered = estimateSubstitute;
	decision.needsNoMemory = true;
	return decision;
}

const char *name(WeightObstacle obstacle)
{
	auto *found = row(weightTexts, obstacle);
	return found ? found->name : nullptr;
}

const char *meaning(WeightObstacle obstacle)
{
	auto *found = row(weightTexts, obstacle);
	return found ? found->meaning : nullptr;
}

const char *name(Verdict verdict)
{
	auto *found = row(verdicts, verdict);
	return found ? *found : "?";
}

const char *name(Strategy strategy)
{
	auto *found = row(strategies, strategy);
	return found ? *found : "?";
}

const char *name(Reason reason)
{
	auto *found = row(reasons, reason);
	return found ? found->name : "?";
}

const char *meaning(Reason reason)
{
	auto *found = row(reasons, reason);
	return found ? found->meaning : "?";
}

const char *advice(Reason reason)
{
	auto *found = row(reasons, reason);
	return found ? found->advice : "";
}

} // namespace autoamp::policy
