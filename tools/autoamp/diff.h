// `autoamp diff`: compares two runs by signature. Main thread.
#pragma once

#include "src/config/options.h"
#include "tools/autoamp/comparison.h"

#include <span>

namespace autoamp::tool {

// entries: the entry points of this program, for the times of the cost model.
Status diff(const DiffOptions &options, const policy::Options &configuration, std::span<const char *const> entries);

} // namespace autoamp::tool
