// `autoamp diff`: compares two runs by signature. Main thread.
#pragma once

#include "tools/autoamp/report.h"

#include <optional>
#include <string>

namespace autoamp::tool {

struct DiffOptions {
	std::string before, after, format = "table"; // files or folders
	Selection selection;
	std::optional<double> slower, error; // limits whose excess fails the command: percent, max_error
	Colour colour = Colour::automatic;
};
Status diff(const DiffOptions &options, const policy::Options &configuration);

} // namespace autoamp::tool
