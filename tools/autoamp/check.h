// `autoamp check`: whether a file of the configuration is right. Main thread; nothing is run.
#pragma once

#include <span>
#include <string>

namespace autoamp::tool {

void check(const std::string &path, std::span<const char *const> entries);

} // namespace autoamp::tool
