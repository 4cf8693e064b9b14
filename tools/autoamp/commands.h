// Commands that are printed for the user to copy. Main thread.
#pragma once

#include <string>

namespace autoamp::tool {

// How this program was called, for commands to copy: autoamp, ./build/tools/autoamp.
extern std::string invocation;
// A word that a shell takes as one word, whatever it holds.
std::string quoted(const std::string &word);
// A path as one would type it here.
std::string here(const std::string &path);

} // namespace autoamp::tool
