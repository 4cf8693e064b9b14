// Lines about an account that receipt, summary and HTML page share. Values; main thread.
#pragma once

#include "tools/autoamp/account.h"
#include "tools/autoamp/traces.h"

#include <string>
#include <vector>

namespace autoamp::tool {

// The time of the fp32 products and its parts, and the shapes that take most of it, whole ones up to `width` (0: no
// limit). "": no time is known.
std::string describeTime(const Account &account);
std::string describeShapes(const Account &account, size_t width);
// Lines about the scaler events and the meaning of the worst one; empty if no event concerns the user.
std::vector<std::string> scalerWarnings(const Account &account);
// The reason why scaler events can be missing in one trace, and all such reasons for several; empty: all are recorded.
std::string scalerGap(const trace::Trace &run);
std::vector<std::string> scalerGaps(const Runs &runs);
// Lowered calls that used another strategy for lack of memory: one line per reason.
std::vector<std::string> shortages(const Account &account);
// Lines about kept copies: their use, missing memory, changed weights, and the benefit that copies would have had.
std::vector<std::string> describeKept(const Account &account);
// " (torch lists)", " (changes no call)"
std::string meaningOfLevel(const trace::Trace &run, const std::string &level);
// The causes of calls in TF32 although another type is configured; "": no such call.
std::string whyTf32(const std::vector<const trace::Trace *> &runs);
std::string whyTf32(const Runs &runs);
// The kernels that the emulated device could not run, in one line; empty: none.
std::string describeNotEmulated(const Account &account);

} // namespace autoamp::tool
