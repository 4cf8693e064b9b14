// The environment as a list of NAME=value strings up to a null pointer, as environ. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace autoamp::policy {

// This process's environment, and one value of an environment (null: unset). For everything else that the library asks
// of it (XDG folders, ranks, %q{VAR}).
const char *const *processEnvironment();
const char *environmentValue(const char *const *environment, std::string_view name);

// The folder `below` in the folder that `variable` names; empty: that is not an absolute path.
std::string folderIn(const char *const *environment, const char *variable, const char *below);
// Of the user's configuration files.
std::string configFolder(const char *const *environment); // with a / behind it; empty: not known

} // namespace autoamp::policy
