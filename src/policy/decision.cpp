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

// A value read from a damaged trace names nothing.
template <class Enum, class Row, size_t count>
const Row *row(const Row (&table)[count], Enum value)
{
	return static_cast<size_t>(value) < count ? &table[static_cast<size_t>(value)] : nullptr;
}

} // namespace

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
