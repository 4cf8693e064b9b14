// `autoamp report --what-if`: the recorded signatures, decided again with other settings. Nothing is run; main thread.
#pragma once

#include "tools/autoamp/traces.h"

#include <span>

namespace autoamp::tool {

// The runs as they would be with other settings: NAME=VALUE,... Their configuration becomes the assumed one. Returns
// the assumed settings that decide about calls, one line for each configuration of the runs.
std::vector<std::string> redecide(Runs &runs, const std::string &settings, std::span<const char *const> entries);
} // namespace autoamp::tool
