// The environment as a list of NAME=value strings up to a null pointer, like environ. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace autoamp::policy {

// The environment of this process, and one value of an environment (null: unset). Used for all variables except
// AUTOAMP_ settings (XDG folders, ranks, %q{VAR}).
const char *const *processEnvironment();
const char *environmentValue(const char *const *environment, std::string_view name);

// The folder `below` in the folder that `variable` names; empty if that is not an absolute path.
std::string folderIn(const char *const *environment, const char *variable, const char *below);
// The folder of the user's configuration files.
std::string configFolder(const char *const *environment); // with a trailing slash; empty: not known

} // namespace autoamp::policy
