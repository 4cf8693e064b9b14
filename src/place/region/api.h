// The functions of inject/autoamp.h, as the front calls them. Any thread.
#pragma once

#include "inject/front.h"

namespace autoamp::core {

extern const front::Regions regionCalls;

} // namespace autoamp::core
