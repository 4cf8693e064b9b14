// `autoamp doctor`: what this machine, this environment and a program let autoamp do, before anything runs. Main
// thread. What stands in a program's way is said here for the receipt too.
#pragma once

#include "src/policy/options.h"
#include "tools/autoamp/executable.h"
#include "tools/autoamp/text.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autoamp::tool {

struct Diagnosis {
	std::string cause, next; // next: a command
};
// Why no call of this program can be caught, whatever it does; nothing: they can.
std::optional<Diagnosis> whyOutOfReach(const Executable &program);

struct DoctorOptions {
	std::vector<std::string> command; // APP and its arguments; empty: the machine alone
	Colour colour = Colour::automatic;
};
void doctor(const DoctorOptions &options, const policy::ParsedOptions &configuration,
            std::span<const char *const> entries);

} // namespace autoamp::tool
