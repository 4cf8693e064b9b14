// `autoamp report`: selects traces, view and format. Main thread. The views are in tools/autoamp/views.h.
#pragma once

#include "src/config/options.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/selection.h"
#include "tools/autoamp/text.h"

#include <span>
#include <string>
#include <vector>

namespace autoamp::tool {

struct ReportOptions {
	std::vector<std::string> places; // files and folders; empty: the newest trace
	std::string view;                // one of views; empty: summary, or ops if an option selects from a list
	std::string format = "table";    // one of formats
	Selection selection;
	std::string whatIf; // NAME=VALUE,...
	Colour colour = Colour::automatic;
};

extern const std::vector<std::string> views, formats;
Status report(const ReportOptions &options, const policy::Options &configuration, std::span<const char *const> entries);

} // namespace autoamp::tool
