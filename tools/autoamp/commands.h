// Commands that are printed for the user to copy. Main thread.
#pragma once

#include <string>

namespace autoamp::tool {

// The path or name by which this program was called, for printed commands: autoamp, ./build/tools/autoamp.
extern std::string invocation;
// Quotes any text so that a shell reads it as one word.
std::string quoted(const std::string &word);
// A path relative to the current folder where that is shorter.
std::string here(const std::string &path);

} // namespace autoamp::tool
