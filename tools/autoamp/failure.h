// A failed command: one clear line and an exit status. Thrown anywhere in the tool, caught in main. Main thread.
// docs/command-line.md lists the statuses. Text arguments are made safe for a terminal.
#pragma once

#include "tools/autoamp/escape.h"

#include <string>
#include <utility>

namespace autoamp::tool {

enum class Status { done = 0, failed = 1, wrong = 2, notStarted = 125, notExecutable = 126, notFound = 127 };

struct Failure {
	Status status;
	std::string line;
};

template <typename... Arguments>
[[noreturn]] void fail(Status status, fmt::format_string<Arguments...> text, Arguments &&...arguments)
{
	throw Failure{status, message(text, std::forward<Arguments>(arguments)...)};
}

} // namespace autoamp::tool
