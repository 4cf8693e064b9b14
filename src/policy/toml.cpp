// The one file that pays for compiling the parser. Our limits: it calls itself for each value in a value, and a table
// goes away by one call for each dot of a key, on whatever stack the application's first call has left.
#include "src/policy/toml.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef TOML_ASSERT // the fuzz targets have one
#define TOML_ASSERT(condition) static_cast<void>(0)
#endif
#define TOML_EXCEPTIONS 0
#define TOML_FLOAT_CHARCONV 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 8
#include <toml++/toml.h>

namespace autoamp::policy {

namespace {

bool isControl(unsigned char c)
{
	return c < ' ' || c == 127;
}

constexpr size_t mostBytes = size_t{256} << 10;
constexpr ptrdiff_t mostDots = 100; // on a line

struct Reader {
	const std::string &path;
	Document document = {};

	std::string at(const toml::source_position &position) const
	{
		return path + ":" + std::to_string(position.line) + ":" + std::to_string(position.column);
	}
	void fail(const std::string &place, std::string_view what)
	{
		if (document.error.empty())
			document.error = place + ": " + std::string(what);
	}

	void refuseDeepKeys(std::string_view text)
	{
		for (size_t line = 1; !text.empty(); ++line) {
			const std::string_view row = text.substr(0, text.find('\n'));
			text.remove_prefix(std::min(row.size() + 1, text.size()));
			const size_t first = row.find_first_not_of(" \t");
			if (first != row.npos && row[first] != '#' && std::count(row.begin(), row.end(), '.') > mostDots)
				fail(path + ":" + std::to_string(line) + ":1", "more than 100 dots on a line");
		}
	}

	void addValue(Table &table, const toml::key &key, const toml::node &node, bool isElement)
	{
		Setting setting;
		setting.key = key.str();
		setting.isElement = isElement;
		setting.keyPlace = at(key.source().begin);
		setting.place = at(node.source().begin);
		setting.line = path + ":" + std::to_string(key.source().begin.line);
		if (const auto *text = node.as_string())
			setting.value = text->get();
		else if (const auto *number = isElement ? nullptr : node.as_integer())
			setting.value = std::to_string(number->get());
		else if (const auto *truth = isElement ? nullptr : node.as_boolean())
			setting.value = truth->get() ? "true" : "false";
		else
			return fail(setting.place,
			            isElement ? "expected a string" : "expected a string, a whole number or true or false");
		if (std::any_of(setting.value.begin(), setting.value.end(), isControl))
			return fail(setting.place, "a value with a control character");
		table.settings.push_back(std::move(setting));
	}

	void addTable(Table &table, const toml::table &from)
	{
		table.place = at(from.source().begin);
		table.line = path + ":" + std::to_string(from.source().begin.line);
		for (const auto &[key, node] : from) {
			if (const auto *array = node.as_array()) {
				for (const toml::node &element : *array)
					addValue(table, key, element, true);
			} else {
				addValue(table, key, node, false);
			}
		}
	}

	void addRules(const toml::node &node)
	{
		const auto *array = node.as_array();
		if (!array)
			return fail(at(node.source().begin), "rules are written [[rule]], each");
		for (const toml::node &element : *array) {
			if (!element.is_table())
				return fail(at(element.source().begin), "rules are written [[rule]], each");
			addTable(document.rules.emplace_back(), *element.as_table());
		}
	}
};

} // namespace

Reading readFile(const std::string &path, ConfigFile &file, std::string &error)
{
	const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe would wait for its writer
	if (descriptor < 0) {
		error = strerrordesc_np(errno);
		return errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG ? Reading::missing : Reading::failed;
	}
	struct stat facts = {};
	std::string text(mostBytes + 1, 0);
	size_t size = 0;
	ssize_t got = -1;
	if (fstat(descriptor, &facts) == 0 && !S_ISREG(facts.st_mode))
		error = "no regular file";
	else
		while (size < text.size() && (got = read(descriptor, text.data() + size, text.size() - size)) > 0)
			size += static_cast<size_t>(got);
	if (error.empty() && got < 0)
		error = strerrordesc_np(errno);
	else if (size > mostBytes)
		error = "more than 256 KiB";
	close(descriptor);
	text.resize(size);
	file = {path, std::move(text)};
	std::replace_if(file.path.begin(), file.path.end(), isControl, '?'); // it stands in lines of messages
	return error.empty() ? Reading::done : Reading::failed;
}

Document parseToml(const ConfigFile &file)
{
	Reader reader{file.path};
	reader.refuseDeepKeys(file.text);
	if (!reader.document.error.empty())
		return std::move(reader.document);
	toml::parse_result result = toml::parse(file.text);
	if (!result) {
		reader.fail(reader.at(result.error().source().begin), shown(result.error().description(), 300));
		return std::move(reader.document);
	}
	toml::table &top = result.table();
	if (const toml::node *rules = top.get("rule"))
		reader.addRules(*rules);
	top.erase("rule");
	reader.addTable(reader.document.top, top);
	return std::move(reader.document);
}

std::string shown(std::string_view value, size_t longest)
{
	std::string text(value.substr(0, longest));
	std::replace_if(text.begin(), text.end(), isControl, '?');
	return value.size() > longest ? text + "..." : text;
}

std::string quoted(std::string_view text)
{
	std::string result = "\"";
	for (char c : text) {
		if (c == '"' || c == '\\')
			result += '\\';
		result += c;
	}
	return result + '"';
}

} // namespace autoamp::policy
