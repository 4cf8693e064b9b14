// `autoamp help`: the manual, made from the same tables that the program works by. Main thread.
#pragma once

#include <string>

namespace autoamp::tool {

extern const char *const helpTopics[4];
std::string help(const std::string &topic); // "": the overview

} // namespace autoamp::tool
