// Makes foreign text (file names, arguments, names in traces, values of variables) safe for the place that shows it:
// one function for each kind of place. Values; any thread.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <type_traits>

namespace autoamp::tool {

// Valid UTF-8: each invalid byte becomes U+FFFD. For formats with their own escapes (JSON) or without any (Parquet,
// Perfetto, SQLite).
std::string utf8(std::string_view text);

// For a terminal and for plain text: UTF-8 without control characters, line ends and direction overrides. They become
// visible escapes such as \x1b or \u202e. The function is idempotent.
std::string shown(std::string_view text);

// For HTML, in text and in quoted attributes.
std::string html(std::string_view text);

// For a cell of a Markdown table: links, images, code and HTML in the text are inactive.
std::string markdown(std::string_view text);

// For a CSV cell, quoted where necessary (RFC 4180). A text that a spreadsheet would run as a formula is prefixed with
// an apostrophe, and control characters are escaped as in shown(), except line feeds and tabs. Neither happens
// with isCsvRaw (--raw), which main sets before anything is written.
std::string csv(std::string_view text);
extern bool isCsvRaw;

// An argument of a message: text is passed through shown(), other types are unchanged.
template <typename Argument>
auto shownArgument(Argument &&argument)
{
	if constexpr (std::is_convertible_v<Argument, std::string_view>)
		return shown(std::string_view(argument));
	else
		return std::forward<Argument>(argument);
}

// Formats a message with a trusted format and untrusted arguments.
template <typename... Arguments>
std::string message(fmt::string_view format, Arguments &&...arguments)
{
	return [&](const auto &...safe) {
		return fmt::vformat(format, fmt::make_format_args(safe...));
	}(shownArgument(std::forward<Arguments>(arguments))...);
}

} // namespace autoamp::tool
