// The top of the HTML page: the gain, the use of fp32 time, the next step, and one chart of the times by op.
// Values; main thread. Functions return safe HTML.
#pragma once

#include "tools/autoamp/html_work.h"

#include <string>

namespace autoamp::tool::page {

std::string answers(const Account &account);
std::string workChart(const Account &account, const Work &work); // "" without times
std::string headline(const Account &account);                    // plain text, for the title of the page

} // namespace autoamp::tool::page
