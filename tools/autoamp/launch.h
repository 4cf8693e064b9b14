// Starts the application: environment, signals and exit status. Main thread. The environment is data until the program
// is spawned; the environment of the autoamp process does not change.
#pragma once

#include "src/config/read_options.h"
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
	Environment(); // the environment of this process
	const std::string *get(const std::string &name) const;
	void set(const std::string &name, const std::string &value);
	// Sets a variable for an option; error messages name the option.
	void set(const std::string &name, const std::string &value, const std::string &option);
	void unset(const std::string &name);
	// Inserts `entry` at the front of a list variable unless the list contains it. Removes nothing.
	void prepend(const std::string &name, const std::string &entry);
	std::vector<std::string> strings() const;
	// The options that the library would read from this environment, in a process of this program (empty: unknown).
	policy::ParsedOptions parse(std::span<const char *const> entries, const std::string &program = {}) const;

private:
	std::map<std::string, std::string> values_;
};

// The name that the library will use for a program started with this command: %e in trace names, and the name of its
// configuration file.
std::string programName(const std::vector<std::string> &command);

// Runs the command to its end and forwards signals sent to this process. Failure 126 or 127 if it cannot be started.
Ending launch(const std::vector<std::string> &command, const Environment &environment);

} // namespace autoamp::tool
