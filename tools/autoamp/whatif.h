// Decides the recorded signatures again with other settings, for `autoamp report --what-if` and for the best strategy.
// Runs no program. Main thread.
#pragma once

#include "tools/autoamp/traces.h"

#include <span>

namespace autoamp::tool {

// Changes the runs as if they had other settings: NAME=VALUE,... Their configuration becomes the assumed one. Returns
// the assumed settings that affect decisions, one line per configuration of the runs.
std::vector<std::string> redecide(Runs &runs, const std::string &settings, std::span<const char *const> entries);
// The variables and values of such settings.
using Settings = std::vector<std::pair<std::string, std::string>>;
Settings settingsOf(const std::string &text);

// True for a recorded rule that keeps calls in fp32.
bool isOfFp32(const trace::PropertyInfo &rule);

// Sets RowInfo::estBestNs and bestPrecision of the fp32 products: the fastest strategy by the cost model. Calls that a
// list, a region or a rule keeps in fp32 stay there, and so do calls that cannot be lowered.
void findBest(Runs &runs, std::span<const char *const> entries);

} // namespace autoamp::tool
