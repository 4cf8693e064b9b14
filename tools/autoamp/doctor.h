// `autoamp doctor`: checks the machine, the environment and a program before a run. The receipt uses whyOutOfReach too.
// Main thread.
#pragma once

#include "src/config/read_options.h"
#include "tools/autoamp/executable.h"
#include "tools/autoamp/text.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autoamp::tool {

struct Diagnosis {
	std::string cause, next; // next: the command to run next
};
// The cause if autoamp cannot intercept any CUDA call of the program, or no call of a CPU BLAS; nothing if it can.
std::optional<Diagnosis> whyOutOfReach(const Executable &program, bool isOnCpu = false);

struct DoctorOptions {
	std::vector<std::string> command; // APP and its arguments; empty: check the machine only
	Colour colour = Colour::automatic;
};
void doctor(const DoctorOptions &options, const policy::ParsedOptions &configuration,
            std::span<const char *const> entries);

} // namespace autoamp::tool
