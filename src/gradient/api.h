// The functions of inject/autoamp.h for gradient scalers, as the front calls them. Any thread.
#pragma once

#include "inject/front.h"

namespace autoamp::gradient {

extern const front::Scalers scalerCalls;

} // namespace autoamp::gradient
