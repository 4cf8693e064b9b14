// The configuration of this process, from the environment and the configuration files. Any thread.
#pragma once

#include "src/config/read_options.h"

#include <span>

namespace autoamp::core {

// Names of all entry points, by row of the entry tables.
std::span<const char *const> entryNames();

policy::ParsedOptions readConfiguration();

} // namespace autoamp::core
