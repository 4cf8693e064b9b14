// Reads a configuration file as text and parses it. Any thread; no state. The meaning of keys and values is defined in
// read_options.cpp and rules.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autoamp::policy {

constexpr size_t mostBytes = size_t{1} << 20; // of a file

struct ConfigFile {
	std::string path, text;
};

// `error`: the system's message, also for a missing file.
enum class Reading : uint8_t { done, missing, failed };
Reading readFile(const std::string &path, ConfigFile &file, std::string &error);

// One value in the form of a variable: strings unchanged, numbers in decimal, `true` and `false`. An array gives one
// setting per element; an empty array gives one empty setting.
struct Setting {
	std::string key, value;
	bool isElement = false, isEmpty = false;
	std::string keyPlace, place; // file:line:column
};

struct Table {
	std::string place; // place of its beginning
	std::vector<Setting> settings;
};

struct Document {
	Table top;
	std::vector<Table> rules; // the [[rule]] tables
	std::string error;        // one line: file:line:column: message
};
Document parseToml(const ConfigFile &file);

// A text typed by a user, on one line: control characters are escaped.
std::string shown(std::string_view value, size_t longest = 100);
// The text as a TOML string.
std::string quoted(std::string_view text);

} // namespace autoamp::policy
