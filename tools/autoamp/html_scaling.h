// The section of the HTML page about scales: those of float16 operands, and the program's gradient scalers. Values;
// main thread.
#pragma once

#include "tools/autoamp/html_parts.h"
#include "tools/autoamp/views.h"

#include <string>

namespace autoamp::tool::page {

// wholeNs: end of the timeline, which shares its clock with the charts. Safe HTML.
std::string scalingSection(const Runs &runs, const Lists &lists, double wholeNs);

} // namespace autoamp::tool::page
