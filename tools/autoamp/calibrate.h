// `autoamp doctor --calibrate`: measures products of a BLAS and of the bfloat16 engine on this CPU, and stores the
// constants of the cost model that follow. Main thread. The products run in a child process.
#pragma once

#include "src/config/options.h"
#include "tools/autoamp/text.h"

#include <string>

namespace autoamp::tool {

struct CalibrateOptions {
	bool isAsked = false;
	std::string blas; // file or name of the library; empty: the one that the loader finds
	Colour colour = Colour::automatic;
};
// Prints the measured and predicted times, and replaces the file of constants in AUTOAMP_DIR. Failure 1, without a new
// file, if they cannot be measured.
void calibrate(const CalibrateOptions &options, const policy::Options &configuration);

} // namespace autoamp::tool
