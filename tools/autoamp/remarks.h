// Lines about an account that receipt, summary and HTML page share. Values; main thread.
#pragma once

#include "tools/autoamp/account.h"
#include "tools/autoamp/traces.h"

#include <string>
#include <vector>

namespace autoamp::tool {

// Lines about the scaler events and the meaning of the worst one; empty if no event concerns the user.
std::vector<std::string> scalerWarnings(const Account &account);
// The reason why scaler events can be missing in one trace, and all such reasons for several; empty: all are recorded.
std::string scalerGap(const trace::Trace &run);
std::vector<std::string> scalerGaps(const Runs &runs);
// Lowered calls that used another strategy for lack of memory: one line per reason.
std::vector<std::string> shortages(const Account &account);
// Lines about kept copies: their use, missing memory, changed weights, and the benefit that copies would have had.
std::vector<std::string> describeKept(const Account &account);
// The kernels that the emulated device could not run, in one line; empty: none.
std::string describeNotEmulated(const Account &account);

} // namespace autoamp::tool
