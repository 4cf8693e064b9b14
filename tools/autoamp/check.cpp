#include "tools/autoamp/check.h"
#include "tools/autoamp/escape.h"

#include "src/config/read_options.h"
#include "src/lists/lists.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/launch.h"
#include "tools/autoamp/text.h"

#include <fmt/format.h>
#include <set>

namespace autoamp::tool {

void check(const std::string &path, std::span<const char *const> entries)
{
	policy::ConfigFile file;
	std::string problem;
	if (policy::readFile(path, file, problem) != policy::Reading::done)
		fail(Status::wrong, "{}: {}", path, problem);
	// Parsed as in a run, with the environment and the other files. An error in another file is only a warning; an
	// invalid variable fails the check.
	Environment here;
	here.set("AUTOAMP_CONFIG", path);
	const char *const nothing = nullptr;
	auto [options, error] = here.parse(entries);
	std::vector<std::string> warnings;
	if (!error.empty()) {
		auto alone = policy::parseOptions(&nothing, entries, {&file, 1});
		if (!alone.error.empty())
			fail(Status::wrong, "{}", error.starts_with(path + ":") ? error : alone.error);
		if (error.starts_with("AUTOAMP_"))
			fail(Status::wrong, "{}", error);
		warnings.push_back("together with the environment and the other files: " + error);
		options = std::move(alone.options);
	}
	const auto isIn = [&](const std::string &place) { return place.find(path + ":") != std::string::npos; };
	for (const auto &line : options.rules->warnings())
		if (line.starts_with(path + ":"))
			warnings.push_back(line);
	for (const auto option : {policy::Option::customWhite, policy::Option::customBlack})
		for (const auto &name :
		     (option == policy::Option::customWhite ? options.customWhite : options.customBlack).idle)
			if (isIn(options.place[static_cast<size_t>(option)]))
				warnings.push_back(fmt::format("{}: {} reaches no library call with a 16-bit form; it has no effect",
				                               options.place[static_cast<size_t>(option)], name));
	for (const auto &warning : warnings)
		complain(message("autoamp: warning: {}\n", warning));
	const auto document = policy::parseToml(file);
	std::set<std::string> keys;
	for (const auto &setting : document.top.settings)
		keys.insert(setting.key);
	fmt::print("{}: {}, {}\n", shown(path), plural(keys.size(), "setting"), plural(document.rules.size(), "rule"));
}

} // namespace autoamp::tool
