// The % directives in the name of a trace file (AUTOAMP_TRACE_FILE). Any thread; no state.
#pragma once

#include <cstddef>
#include <string_view>

namespace autoamp::base {

struct Directive {
	char letter = 0;                // letter of %e %t %h %p %n %%; 'q' for %q{VAR}, 'r' for %rank%
	size_t length = 2;              // including the %
	std::string_view variable = {}; // VAR
	const char *problem = nullptr;  // null: valid
};

// Parses the directive at the start of `text`, which begins with its %.
inline Directive directiveAt(std::string_view text)
{
	Directive found;
	found.letter = text.size() > 1 ? text[1] : '\0';
	if (found.letter == 'q') {
		const size_t end = text.substr(0, 260).find('}');
		if (text.substr(2, 1) != "{" || end == text.npos || end == 3)
			found.problem = "%q must be followed by {VARIABLE}";
		else
			found.variable = text.substr(3, end - 3), found.length = end + 1;
	} else if (text.substr(1, 5) == "rank%") {
		found.length = 6;
	} else if (!found.letter || std::string_view("ethpn%").find(found.letter) == text.npos) {
		found.problem = "unknown % in the file name: %e %t %h %p %n %q{VAR} %rank% %% are known";
	}
	return found;
}

// Returns the problem of the first invalid directive; null if there is none.
inline const char *problemOfPattern(std::string_view pattern)
{
	for (size_t at = 0; (at = pattern.find('%', at)) != pattern.npos;) {
		const Directive found = directiveAt(pattern.substr(at));
		if (found.problem)
			return found.problem;
		at += found.length;
	}
	return nullptr;
}

} // namespace autoamp::base
