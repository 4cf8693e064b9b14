// `autoamp doctor --self-test`: runs products and convolutions with known results through every method of lowering, and
// compares their errors with those that the rounding may cause. Main thread. The calls run in programs of their own
// (tools/self_test), started by `autoamp run`.
#pragma once

#include "src/config/read_options.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/text.h"

#include <string>

namespace autoamp::tool {

struct SelfTestOptions {
	bool isAsked = false;
	std::string device = "auto", format = "text"; // device: as of `autoamp run`
	Colour colour = Colour::automatic;
};
// Prints the result. Status::failed if a method computed wrong results or did not end.
Status selfTest(const SelfTestOptions &options, const policy::Options &configuration);

} // namespace autoamp::tool
