#include "src/config/environment.h"

#include <unistd.h>

namespace autoamp::policy {

const char *const *processEnvironment()
{
	return environ;
}

const char *environmentValue(const char *const *environment, std::string_view name)
{
	for (; environment && *environment; ++environment) {
		std::string_view text = *environment;
		if (text.starts_with(name) && text.substr(name.size()).starts_with('='))
			return *environment + name.size() + 1;
	}
	return nullptr;
}

std::string folderIn(const char *const *environment, const char *variable, const char *below)
{
	const char *base = environmentValue(environment, variable);
	return base && *base == '/' ? std::string(base) + below : std::string();
}

std::string configFolder(const char *const *environment)
{
	const std::string folder = folderIn(environment, "XDG_CONFIG_HOME", "/autoamp/");
	return folder.empty() ? folderIn(environment, "HOME", "/.config/autoamp/") : folder;
}

} // namespace autoamp::policy
