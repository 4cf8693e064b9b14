// One command for the user, with the reason. tools/autoamp/next.h chooses it. A value; main thread.
#pragma once

#include <cmath>
#include <string>

namespace autoamp::tool {

struct NextStep {
	std::string title, why, command;
	double savesNs = NAN; // NaN: unknown, or the step saves no time
	std::string source;   // of savesNs: model; "": unknown
};

} // namespace autoamp::tool
