// Tables and sections of the HTML page. Values; main thread. Functions return safe HTML.
#pragma once

#include "tools/autoamp/html_work.h"
#include "tools/autoamp/views.h"

#include <string>

namespace autoamp::tool::page {

std::string reasonsSection(const Sheet &reasons, Times times, double allFlops);
std::string signaturesSection(const Sheet &ops, const Work &work, Times times,
                              bool isSorted); // isSorted: keep the order
std::string kernelsSection(const Sheet &kernels, bool isEmulated);
// One row for each process; "" for one process.
std::string processesSection(const Runs &runs, bool isMeasured, Times times);
std::string configurationSection(const Json &runs, const trace::Trace &first); // `runs` of the report
std::string lossesSection(const Account &account, const Lists &lists);

} // namespace autoamp::tool::page
