// Starting the application: its environment, its life, its exit status. Main thread.
// The environment is data until the program is spawned: nothing of autoamp's own process changes.
#pragma once

#include "src/policy/options.h"
#include "tools/autoamp/ending.h"

#include <map>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace autoamp::tool {

class Environment
{
public:
	Environment(); // that of this process
	const std::string *get(const std::string &name) const;
	void set(const std::string &name, const std::string &value);
	// The same for the value of an option, which messages name.
	void set(const std::string &name, const std::string &value, const std::string &option);
	void unset(const std::string &name);
	// Puts `entry` before what a list variable holds, once; never takes anything away.
	void prepend(const std::string &name, const std::string &entry);
	std::vector<std::string> strings() const;
	// What the library would make of it, in a process of that program (empty: not known).
	policy::ParsedOptions parse(std::span<const char *const> entries, const std::string &program = {}) const;

private:
	std::map<std::string, std::string> values_;
};

// What the library will call a program that is started like this: %e of a trace's name, and the name of its file of the
// configuration.
std::string programName(const std::vector<std::string> &command);

// Runs it to its end; signals sent to this process are passed on. Failure 126 or 127 if it cannot be started.
Ending launch(const std::vector<std::string> &command, const Environment &environment);

} // namespace autoamp::tool
