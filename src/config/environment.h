// The environment as a list of NAME=value strings up to a null pointer, like environ. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace autoamp::policy {

// The environment of this process. If it has no variable of autoamp but the program was started with one, it is the
// environment of the start: the program has cleared its own.
const char *const *processEnvironment();
// One value of an environment; null: unset.
const char *environmentValue(const char *const *environment, std::string_view name);

// The folder `below` in the folder that `variable` names; empty if that is not an absolute path.
std::string folderIn(const char *const *environment, const char *variable, const char *below);
// The folder of the user's configuration files.
std::string configFolder(const char *const *environment); // with a trailing slash; empty: not known

} // namespace autoamp::policy
