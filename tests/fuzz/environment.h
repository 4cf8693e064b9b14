// What holds of any environment that is read as a configuration: for the targets that make one. One thread.
#pragma once

#include <string>
#include <vector>

namespace fuzz {

// `variables`: NAME=value strings. Ends the process where something does not hold.
void checkEnvironment(const std::vector<std::string> &variables);

// What holds of any text as a file of the configuration.
void checkFile(const std::string &text);

// The strings of `data`, which NULs separate.
std::vector<std::string> strings(const char *data, size_t size);

} // namespace fuzz
