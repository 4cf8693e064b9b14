#include "tools/autoamp/commands.h"

#include "tools/autoamp/escape.h"

#include <filesystem>
#include <fmt/format.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

std::string invocation = "autoamp";

std::string quoted(const std::string &word)
{
	static constexpr const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
	if (!word.empty() && word.find_first_not_of(plain) == std::string::npos)
		return word;
	const bool isShown = shown(word) == word;
	std::string result = isShown ? "'" : "$'"; // $'...' of bash, zsh and ksh: \x1b is that character
	for (const char c : word) {
		const auto byte = static_cast<unsigned char>(c);
		if (isShown)
			result += c == '\'' ? "'\\''" : std::string(1, c);
		else if (byte < ' ' || byte >= 127)
			result += fmt::format("\\x{:02x}", byte);
		else
			result += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
	}
	return result + "'";
}

std::string here(const std::string &path)
{
	std::error_code ignored;
	const auto relative = fs::path(path).lexically_relative(fs::current_path(ignored)).lexically_normal().string();
	return relative.empty() || relative.starts_with("..") ? path : relative == "." ? relative : "./" + relative;
}

} // namespace autoamp::tool
