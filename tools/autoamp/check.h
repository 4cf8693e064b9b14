// `autoamp check`: validates a configuration file. Main thread; runs no program.
#pragma once

#include <span>
#include <string>

namespace autoamp::tool {

void check(const std::string &path, std::span<const char *const> entries);

} // namespace autoamp::tool
