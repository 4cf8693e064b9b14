// Selects and orders the rows of a list: --by, --sort, --top.
#pragma once

#include <cstddef>
#include <string>

namespace autoamp::tool {

struct Selection {
	std::string by;   // one of groupings; empty: each row
	std::string sort; // a field: numbers from the largest, texts from A; empty: keep the order
	size_t top = 0;   // 0: all
};

} // namespace autoamp::tool
