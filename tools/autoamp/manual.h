// Manual pages, the page of options and shell completions, written from the options of the program and from the tables
// of `autoamp help`. The build installs them. Main thread.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace autoamp::tool {

struct OptionFacts {
	std::vector<std::string> names;   // "-o", "--out"; empty: a positional argument
	std::string value;                // name of the value: FILE; empty: a flag
	std::vector<std::string> choices; // the accepted values, if they are words
	std::string help;
	bool isRequired = false, isRepeated = false;

	bool isFile() const;
	std::string usage() const; // "-o, --out FILE"
};

struct CommandFacts {
	std::string name, help;
	bool takesProgram = false; // APP and its arguments come last
	bool needsProgram = false;
	std::vector<OptionFacts> options = {};

	std::string usage() const; // "autoamp check [OPTIONS] FILE"
};

// The accepted words of options that CLI11 does not check: those of a variable.
using Choices = std::map<const CLI::Option *, std::vector<std::string>>;

std::vector<CommandFacts> describe(const CLI::App &app, const Choices &choices);

extern const char *const shells[3];
std::string completion(const std::string &shell, const std::vector<CommandFacts> &commands);

// "autoamp check [OPTIONS] FILE"
std::string usageOf(const CLI::App &command);

// A page of `man`: autoamp, autoamp-COMMAND or autoamp-TOPIC of `autoamp help`. Empty: no such page.
std::string manualPage(const std::string &page, const std::vector<CommandFacts> &commands);
// docs/options.md.
std::string optionPage(const std::vector<CommandFacts> &commands);

} // namespace autoamp::tool
