// `autoamp diff`: compares two runs by signature. Main thread.
#pragma once

#include "src/config/options.h"
#include "tools/autoamp/comparison.h"

namespace autoamp::tool {

Status diff(const DiffOptions &options, const policy::Options &configuration);

} // namespace autoamp::tool
