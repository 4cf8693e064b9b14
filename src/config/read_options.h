// Reads the configuration from the environment and from files. Any thread. In the core, only src/policy reads the
// environment.
#pragma once

#include "src/config/options.h"
#include "src/config/toml.h"

#include <span>
#include <string>
#include <string_view>

namespace autoamp::policy {

// `error` is one line without a newline. If it is not empty, the options must not be used: the library stays off.
struct ParsedOptions {
	Options options;
	std::string error;
};

// `environment`: NAME=value strings up to a null pointer, like environ. `entries`: names by row of the entry tables.
// Names that do not begin with AUTOAMP_ are ignored. `files`: highest priority first; the environment has priority over
// them.
ParsedOptions parseOptions(const char *const *environment, std::span<const char *const> entries,
                           std::span<const ConfigFile> files = {});
// The same with the files that the environment selects: AUTOAMP_CONFIG, then <program>.toml and autoamp.toml in the
// user's configuration folder. `program`: identical to %e in a trace file name; empty: not known.
ParsedOptions configure(const char *const *environment, std::span<const char *const> entries,
                        const std::string &program);

// Applies the settings of a region to the options around it. Lists are merged: a name in one list is removed from the
// other. Level O0 from the environment is kept. Change::name: name of a variable.
struct Change {
	std::string_view name, value;
};
ParsedOptions changed(const Options &around, std::span<const Change> changes, std::span<const char *const> entries);

} // namespace autoamp::policy
