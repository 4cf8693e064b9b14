// Iterates over the parts of a text. Any thread.
#pragma once

#include <algorithm>
#include <string_view>

namespace autoamp::policy {

// Calls `visit(part)` for each part of `text` until one returns true.
template <class Visit>
bool anyPart(std::string_view text, char separator, Visit visit)
{
	while (!text.empty()) {
		size_t end = std::min(text.find(separator), text.size());
		if (visit(text.substr(0, end)))
			return true;
		text.remove_prefix(std::min(end + 1, text.size()));
	}
	return false;
}

} // namespace autoamp::policy
