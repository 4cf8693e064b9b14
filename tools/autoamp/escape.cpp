#include "tools/autoamp/escape.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

namespace autoamp::tool {

namespace {

// The first character of a non-empty text. size: its bytes; 0: the first byte is not valid UTF-8.
struct Character {
	uint32_t code;
	size_t size;
};

Character first(std::string_view text)
{
	const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
	const uint32_t lead = byte(0);
	if (lead < 0x80)
		return {lead, 1};
	const size_t size = lead >= 0xf0 && lead < 0xf5   ? 4
	                    : lead >= 0xe0 && lead < 0xf0 ? 3
	                    : lead >= 0xc2 && lead < 0xe0 ? 2
	                                                  : 0;
	if (size == 0 || text.size() < size)
		return {lead, 0};
	uint32_t code = lead & (0x7fu >> size);
	for (size_t i = 1; i < size; i++) {
		if ((byte(i) & 0xc0) != 0x80)
			return {lead, 0};
		code = code << 6 | (byte(i) & 0x3f);
	}
	const bool isShortest = code >= (size == 2 ? 0x80u : size == 3 ? 0x800u : 0x10000u);
	const bool isCharacter = code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
	return isShortest && isCharacter ? Character{code, size} : Character{lead, 0};
}

// Control characters (C0, DEL, C1), line and paragraph separators, and characters that reorder or hide others.
bool isActive(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
	       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
	       (code >= 0xfff9 && code <= 0xfffb) || (code >= 0xe0000 && code <= 0xe007f);
}

// Calls `put` for each character and `putByte` for each invalid byte.
template <typename Put, typename PutByte>
std::string eachCharacter(std::string_view text, Put put, PutByte putByte)
{
	std::string result;
	result.reserve(text.size());
	while (!text.empty()) {
		const auto [code, size] = first(text);
		if (size > 0)
			put(result, code, text.substr(0, size));
		else
			putByte(result, code);
		text.remove_prefix(std::max<size_t>(size, 1));
	}
	return result;
}

constexpr const char *replacement = "\xef\xbf\xbd";

} // namespace

std::string utf8(std::string_view text)
{
	return eachCharacter(
	    text, [](std::string &result, uint32_t, std::string_view bytes) { result += bytes; },
	    [](std::string &result, uint32_t) { result += replacement; });
}

std::string shown(std::string_view text)
{
	return eachCharacter(
	    text,
	    [](std::string &result, uint32_t code, std::string_view bytes) {
		    if (!isActive(code))
			    result += bytes;
		    else if (code == '\n' || code == '\t' || code == '\r')
			    result += code == '\n' ? "\\n" : code == '\t' ? "\\t" : "\\r";
		    else
			    result += code < 0x100 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
	    },
	    [](std::string &result, uint32_t byte) { result += fmt::format("\\x{:02x}", byte); });
}

std::string html(std::string_view text)
{
	return eachCharacter(
	    text,
	    [](std::string &result, uint32_t code, std::string_view bytes) {
		    switch (code) {
		    case '&':
			    result += "&amp;";
			    break;
		    case '<':
			    result += "&lt;";
			    break;
		    case '>':
			    result += "&gt;";
			    break;
		    case '"':
			    result += "&quot;";
			    break;
		    case '\'':
			    result += "&#39;";
			    break;
		    case '\n':
			    result += '\n';
			    break;
		    default:
			    result += isActive(code) ? shown(bytes) : std::string(bytes);
		    }
	    },
	    [](std::string &result, uint32_t) { result += replacement; });
}

std::string markdown(std::string_view text)
{
	const std::string safe = html(shown(text));
	const auto isWord = [&safe](size_t at) {
		const auto letter = static_cast<unsigned char>(at < safe.size() ? safe[at] : 0);
		return std::isalnum(letter) || letter >= 0x80;
	};
	std::string result;
	for (size_t i = 0; i < safe.size(); i++) {
		// Within a word, `_` is not markup. `://`, `www.` and an address with `@` are links without markup.
		const bool isMark = std::string_view("\\`*[]()!|~").find(safe[i]) != std::string_view::npos ||
		                    (safe[i] == '_' && !(i > 0 && isWord(i - 1) && isWord(i + 1))) ||
		                    safe.compare(i, 3, "://") == 0 ||
		                    (safe[i] == '.' && i >= 3 && safe.compare(i - 3, 3, "www") == 0) ||
		                    (safe[i] == '@' && i > 0 && isWord(i - 1));
		if (isMark)
			result += '\\';
		result += safe[i];
	}
	return result;
}

bool isCsvRaw = false;

std::string csv(std::string_view text)
{
	std::string cell;
	if (!isCsvRaw && !text.empty() && std::string_view("=+-@\t\r\n").find(text.front()) != std::string_view::npos)
		cell = '\'';
	cell += isCsvRaw ? utf8(text)
	                 : eachCharacter(
	                       text,
	                       [](std::string &result, uint32_t code, std::string_view bytes) {
		                       result += code == '\n' || code == '\t' ? std::string(bytes) : shown(bytes);
	                       },
	                       [](std::string &result, uint32_t) { result += replacement; });
	if (cell.find_first_of(",\"\r\n") == std::string::npos)
		return cell;
	std::string quoted = "\"";
	for (const char letter : cell)
		quoted += letter == '"' ? "\"\"" : std::string(1, letter);
	return quoted + '"';
}

} // namespace autoamp::tool
