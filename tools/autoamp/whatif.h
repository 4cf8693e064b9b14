// `autoamp report --what-if`: decides the recorded signatures again with other settings. Runs no program. Main thread.
#pragma once

#include "tools/autoamp/traces.h"

#include <span>

namespace autoamp::tool {

// Changes the runs as if they had other settings: NAME=VALUE,... Their configuration becomes the assumed one. Returns
// the assumed settings that affect decisions, one line per configuration of the runs.
std::vector<std::string> redecide(Runs &runs, const std::string &settings, std::span<const char *const> entries);
} // namespace autoamp::tool
