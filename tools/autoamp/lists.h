// `autoamp lists`: shows each op of a list system and each entry point, its category, and whether a library call for it
// exists. Main thread.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace autoamp::tool {

struct ListsOptions {
	std::optional<std::string> lists, level; // values of the variables; none: their current values
	std::string device = "cuda";             // cuda, cpu
	std::string format = "text";             // text, json
};

void lists(const ListsOptions &options, std::span<const char *const> entries);

} // namespace autoamp::tool
