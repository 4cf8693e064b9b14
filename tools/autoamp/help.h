// `autoamp help`: the manual, made from the tables that the program itself uses. Main thread.
#pragma once

#include <string>

namespace autoamp::tool {

extern const char *const helpTopics[5];
std::string help(const std::string &topic); // "": the overview

} // namespace autoamp::tool
