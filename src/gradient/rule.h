// The rules of autoamp_scaler_options: state machines of the gradient scalers of frameworks.
#pragma once

#include "inject/autoamp.h"
#include "kernels/gradient.h"

namespace autoamp::gradient {

struct Framework;

// Returns the framework with this name; a null name is "torch". Null: there is none.
const Framework *frameworkOf(const char *name);

kernels::Arithmetic arithmeticOf(const Framework &framework);

// The state machine of the framework with the parameters of the options.
kernels::ScalerRule ruleOf(const Framework &framework, const autoamp_scaler_options &options);

} // namespace autoamp::gradient
