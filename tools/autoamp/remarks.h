// Lines about an account that the receipt, the summary and the HTML page have in common. Values; main thread.
#pragma once

#include "tools/autoamp/account.h"
#include "tools/autoamp/traces.h"

#include <string>
#include <vector>

namespace autoamp::tool {

// What the user can do about it, best first: each one line.
std::vector<std::string> suggestions(const Account &account);
// Lines about the scaler events and the meaning of the worst one; empty: nothing that a user has to know.
std::vector<std::string> scalerWorries(const Account &account);
// Why scaler events can be missing in a trace, and in any of several; empty: all are recorded.
std::string scalerGap(const trace::Trace &run);
std::vector<std::string> scalerGaps(const Runs &runs);
// Lowered calls that ran by another strategy for lack of memory: one line for each reason.
std::vector<std::string> shortages(const Account &account);
// The kernels that the emulated device could not run, in one line; empty: none.
std::string describeNotEmulated(const Account &account);

} // namespace autoamp::tool
