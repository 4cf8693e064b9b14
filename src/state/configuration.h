// The configuration of this process as the environment and the files have it. Any thread.
#pragma once

#include "src/policy/options.h"

#include <span>

namespace autoamp::core {

// Names of all entry points, by row of the entry tables.
std::span<const char *const> entryNames();

policy::ParsedOptions readConfiguration();

} // namespace autoamp::core
