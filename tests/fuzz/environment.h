// Properties of any environment that is read as a configuration, for the targets that generate one. One thread.
#pragma once

#include <string>
#include <vector>

namespace fuzz {

// `variables`: NAME=value strings. Ends the process if a property does not hold.
void checkEnvironment(const std::vector<std::string> &variables);

// Properties of any text that is read as a configuration file.
void checkFile(const std::string &text);

// The strings of `data`, separated by NULs.
std::vector<std::string> strings(const char *data, size_t size);

} // namespace fuzz
