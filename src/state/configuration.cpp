#include "src/state/configuration.h"

#include "inject/entry_table.h"
#include "src/config/environment.h"
#include "src/trace/naming.h"

#include <array>
#include <climits>
#include <string>

namespace autoamp::core {

namespace {

// The program name, identical to %e in a trace file name.
std::string programName()
{
	policy::ConfigFile arguments;
	std::string ignored;
	policy::readFile("/proc/self/cmdline", arguments, ignored);
	char name[NAME_MAX + 1];
	trace::programName(arguments.text.data(), arguments.text.size(), name, sizeof name);
	return name;
}

} // namespace

std::span<const char *const> entryNames()
{
	// Constant-initialized: a child forked during a guarded initialization would wait for its end without limit.
	static constexpr auto names = [] {
		std::array<const char *, entry::entryCount> made = {};
		for (unsigned i = 0; i < entry::entryCount; i++)
			made[i] = entry::entryTable[i].name;
		return made;
	}();
	return names;
}

policy::ParsedOptions readConfiguration()
{
	return policy::configure(policy::processEnvironment(), entryNames(), programName());
}

} // namespace autoamp::core
