// The traces that a command line names. Main thread.
#pragma once

#include "src/policy/options.h"
#include "src/trace/reader.h"
#include "tools/autoamp/failure.h"

#include <string>
#include <vector>

namespace autoamp::tool {

using Runs = std::vector<trace::Trace>;
// The traces of files and folders; of nothing the newest one. A bad file among many does not hide the others, but it is
// said and the status tells.
Runs gather(const std::vector<std::string> &places, const policy::Options &configuration, Status &status);
} // namespace autoamp::tool
