// A file of the configuration as text: read from its place, then taken apart. Any thread; nothing is remembered.
// What its keys and values mean is said elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autoamp::policy {

struct ConfigFile {
	std::string path, text;
};

// `error`: what the system says, of a missing one too.
enum class Reading : uint8_t { done, missing, failed };
Reading readFile(const std::string &path, ConfigFile &file, std::string &error);

// One value as a variable would have it: strings as they are, numbers in decimal, `true` and `false`. An array
// is as many settings as it has elements; one without any is one that is empty.
struct Setting {
	std::string key, value;
	bool isElement = false, isEmpty = false;
	std::string keyPlace, place; // file:line:column
};

struct Table {
	std::string place; // of its beginning
	std::vector<Setting> settings;
};

struct Document {
	Table top;
	std::vector<Table> rules; // of [[rule]]
	std::string error;        // one line: file:line:column: what
};
Document parseToml(const ConfigFile &file);

// What a user typed, on one line whatever it holds.
std::string shown(std::string_view value, size_t longest = 100);
// As TOML would have it.
std::string quoted(std::string_view text);

} // namespace autoamp::policy
