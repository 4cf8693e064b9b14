// Finds the traces named on a command line. Main thread.
#pragma once

#include "src/config/options.h"
#include "src/trace/read/trace.h"
#include "tools/autoamp/failure.h"

#include <string>
#include <vector>

namespace autoamp::tool {

using Runs = std::vector<trace::Trace>;
// Opens the traces of files and folders; without any, the newest trace. A bad file is reported and sets `status`; the
// other files are still read.
Runs gather(const std::vector<std::string> &places, const policy::Options &configuration, Status &status);
} // namespace autoamp::tool
