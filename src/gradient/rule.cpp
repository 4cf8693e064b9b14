#include "src/gradient/rule.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

namespace autoamp::gradient {

using kernels::Arithmetic;
using kernels::ScalerRule;

namespace {

using Growth = ScalerRule::Growth;
using Overflows = ScalerRule::Overflows;

// The factor after an overflow: an option, or the growth factor as divisor or as reciprocal.
enum class Reduction : uint8_t { backoffFactor, division, reciprocal };
// Flags of ScalerRule, and: the factors are rounded to float; there is a floor.
constexpr uint16_t hasFloat = 64, hasFloor = 128;
constexpr uint16_t isWide = ScalerRule::isWide, staysFinite = ScalerRule::staysFinite;

} // namespace

struct Framework {
	const char *name;
	Arithmetic arithmetic;
	Growth grows;
	Overflows reduces;
	Reduction reduction;
	uint16_t flags;
};

// tools/python/autoamp/_rules.py has the same table.
static constexpr Framework frameworks[] = {
    {"torch", Arithmetic::torch, Growth::exact, Overflows::each, Reduction::backoffFactor, staysFinite},
    {"paddle", Arithmetic::paddle, Growth::exact, Overflows::inARow, Reduction::backoffFactor,
     hasFloat | ScalerRule::lastDecides},
    {"paddle_kernel", Arithmetic::paddle, Growth::exact, Overflows::inARow, Reduction::backoffFactor,
     hasFloat | hasFloor | staysFinite},
    {"mindspore", Arithmetic::mindspore, Growth::wrapping, Overflows::each, Reduction::division,
     hasFloor | staysFinite},
    {"mindspore_cell", Arithmetic::mindspore, Growth::atLeast, Overflows::each, Reduction::reciprocal,
     hasFloat | hasFloor},
    {"mindspore_manager", Arithmetic::mindspore, Growth::periodic, Overflows::each, Reduction::reciprocal,
     isWide | hasFloor},
    {"deepspeed", Arithmetic::torch, Growth::delayed, Overflows::sinceGrowth, Reduction::division,
     isWide | hasFloor | ScalerRule::keepsLast},
    {"megatron", Arithmetic::torch, Growth::exact, Overflows::sinceGrowth, Reduction::backoffFactor,
     hasFloat | hasFloor},
    {"apex", Arithmetic::torch, Growth::exact, Overflows::sinceClean, Reduction::backoffFactor, staysFinite},
    {"jmp", Arithmetic::torch, Growth::wrapping, Overflows::each, Reduction::division,
     hasFloat | hasFloor | staysFinite},
    {"keras", Arithmetic::torch, Growth::exact, Overflows::each, Reduction::backoffFactor, hasFloat},
};

const Framework *frameworkOf(const char *name)
{
	const auto *const found = std::find_if(std::begin(frameworks), std::end(frameworks), [&](const Framework &each) {
		return !std::strcmp(each.name, name ? name : "torch");
	});
	return found == std::end(frameworks) ? nullptr : found;
}

Arithmetic arithmeticOf(const Framework &framework)
{
	return framework.arithmetic;
}

ScalerRule ruleOf(const Framework &framework, const autoamp_scaler_options &options)
{
	const auto factor = [&](double exact) {
		return framework.flags & hasFloat ? static_cast<double>(static_cast<float>(exact)) : exact;
	};
	ScalerRule rule = {};
	rule.growth = factor(options.growth_factor);
	rule.backoff = framework.reduction == Reduction::backoffFactor ? factor(options.backoff_factor)
	               : framework.reduction == Reduction::division    ? rule.growth
	                                                               : factor(1 / rule.growth);
	rule.floor = framework.flags & hasFloor ? factor(options.min_scale) : -HUGE_VAL;
	rule.interval = options.growth_interval;
	rule.grows = framework.grows;
	rule.reduces = framework.reduces;
	rule.patience = framework.reduces == Overflows::inARow ? options.backoff_every : options.hysteresis;
	rule.flags = framework.flags;
	if (framework.reduction == Reduction::division)
		rule.flags |= ScalerRule::divides;
	if (options.flags & AUTOAMP_SCALER_STOPS)
		rule.flags |= ScalerRule::stops;
	if (options.flags & AUTOAMP_SCALER_CONSECUTIVE && framework.reduces == Overflows::sinceGrowth)
		rule.reduces = Overflows::sinceClean;
	return rule;
}

} // namespace autoamp::gradient
