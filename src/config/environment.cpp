#include "src/config/environment.h"

#include "src/base/once.h"
#include "src/config/toml.h"

#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>

namespace autoamp::policy {

namespace {

bool hasSettings(const char *const *environment)
{
	for (; environment && *environment; ++environment)
		if (const std::string_view text = *environment; text.starts_with("AUTOAMP_") || text.starts_with("_AUTOAMP_"))
			return true;
	return false;
}

// The environment that the program was started with, whatever it has changed since. Never freed.
const char *const *startEnvironment()
{
	static constinit base::Once<const char *const> start;
	return start.get([] {
		auto *const file = new ConfigFile;
		std::string ignored;
		readFile("/proc/self/environ", *file, ignored);
		const std::string &text = file->text;
		auto *const list = new std::vector<const char *>;
		for (size_t at = 0; at < text.size(); at += std::strlen(text.c_str() + at) + 1)
			list->push_back(text.c_str() + at);
		list->push_back(nullptr);
		return const_cast<const char *const *>(list->data());
	});
}

} // namespace

const char *const *processEnvironment()
{
	if (hasSettings(environ))
		return environ;
	const char *const *const start = startEnvironment();
	return hasSettings(start) ? start : environ;
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
