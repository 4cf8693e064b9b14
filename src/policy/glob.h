// Shell globs: `*`, `?`; everything else is itself. Any thread; no state.
#pragma once

#include <string_view>

namespace autoamp::policy {

// A `*` that fails is never returned to once a later one was met: with each of them tried again a list of some twenty
// hangs the application.
inline bool matches(std::string_view pattern, std::string_view text)
{
	size_t at = 0, read = 0, star = pattern.npos, taken = 0; // what the latest `*` has taken ends there
	while (read < text.size()) {
		if (at < pattern.size() && pattern[at] == '*') {
			star = ++at;
			taken = read;
		} else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[read])) {
			++at;
			++read;
		} else if (star != pattern.npos) {
			at = star;
			read = ++taken;
		} else {
			return false;
		}
	}
	return pattern.find_first_not_of('*', at) == pattern.npos;
}

} // namespace autoamp::policy
