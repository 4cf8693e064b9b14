#include "tools/autoamp/check.h"

#include "src/policy/lists.h"
#include "src/policy/options.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/text.h"

#include <algorithm>
#include <fmt/format.h>

namespace autoamp::tool {

void check(const std::string &path, std::span<const char *const> entries)
{
	policy::ConfigFile file;
	std::string problem;
	if (policy::readFile(path, file, problem) != policy::Reading::done)
		fail(Status::wrong, "{}: {}", path, problem);
	const char *const nothing = nullptr; // the file alone
	const auto [options, error] = policy::parseOptions(&nothing, entries, {&file, 1});
	if (!error.empty())
		fail(Status::wrong, "{}", error);
	auto warnings = options.rules->warnings();
	for (const auto option : {policy::Option::customWhite, policy::Option::customBlack})
		for (const auto &name :
		     (option == policy::Option::customWhite ? options.customWhite : options.customBlack).idle)
			warnings.push_back(fmt::format("{}: {} has no library call in a 16-bit form: nothing changes",
			                               options.place[static_cast<size_t>(option)], name));
	for (const auto &warning : warnings)
		complain(fmt::format("autoamp: warning: {}\n", warning));
	const auto isSet = [](policy::Origin origin) { return origin != policy::Origin::fallback; };
	fmt::print("{}: {}, {}\n", path,
	           plural(static_cast<size_t>(std::count_if(std::begin(options.origin), std::end(options.origin), isSet)),
	                  "setting"),
	           plural(options.rules->list.size(), "rule"));
}

} // namespace autoamp::tool
