// Shell globs: `*` and `?` (one UTF-8 character); every other character matches itself. Any thread; no state.
#pragma once

#include <string>
#include <string_view>

namespace autoamp::policy {

// Backtracks only to the latest `*`. Retrying every `*` would hang the application for a pattern with about twenty of
// them.
inline bool matches(std::string_view pattern, std::string_view text)
{
	size_t at = 0, read = 0, star = pattern.npos, taken = 0; // end of the text matched by the latest `*`
	const auto isInside = [text](size_t place) { return place < text.size() && (text[place] & 0xc0) == 0x80; };
	while (read < text.size()) {
		if (at < pattern.size() && pattern[at] == '*') {
			star = ++at;
			taken = read;
		} else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[read])) {
			do
				++read;
			while (pattern[at] == '?' && isInside(read));
			++at;
		} else if (star != pattern.npos) {
			at = star;
			read = ++taken;
		} else {
			return false;
		}
	}
	return pattern.find_first_not_of('*', at) == pattern.npos;
}

// Matches any name of an entry point: cublasSgemm_v2_64 is also cublasSgemm_v2, and in program source cublasSgemm_64 or
// cublasSgemm.
inline bool matchesEntry(std::string_view pattern, std::string_view entry)
{
	const bool is64 = entry.ends_with("_64");
	const std::string_view base = entry.substr(0, entry.size() - (is64 ? 3 : 0));
	const std::string_view source = base.substr(0, base.size() - (base.ends_with("_v2") ? 3 : 0));
	return matches(pattern, entry) || matches(pattern, base) || matches(pattern, source) ||
	       (is64 && matches(pattern, std::string(source) + "_64"));
}

} // namespace autoamp::policy
