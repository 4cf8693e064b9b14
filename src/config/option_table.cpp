#include "src/config/option_table.h"

#include "src/config/capture_range.h"
#include "src/lists/split.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace autoamp::policy {

namespace {

constexpr OptionRow table[] = {
#define X(id, variable, type, values, fallback, help) {variable, ValueType::type, values, fallback, help},
    AUTOAMP_OPTIONS(X)
#undef X
};
static_assert(std::size(table) == static_cast<size_t>(Option::count));

} // namespace

std::span<const OptionRow> optionTable()
{
	return table;
}

std::string acceptedValues(const OptionRow &row)
{
	switch (row.type) {
	case ValueType::size:
		return "bytes, or a number with K, M or G";
	case ValueType::time:
		return timeForms;
	case ValueType::fraction:
		return "0 to 1 with at most six decimals, such as 0.01";
	case ValueType::text:
		return "a path";
	case ValueType::range:
		return captureRangeForms;
	case ValueType::names:
		return "ops and entry points, comma-separated";
	case ValueType::choice:
		break;
	}
	std::string text;
	anyPart(row.values, ' ', [&](std::string_view group) {
		text += text.empty() ? "" : ", ";
		size_t alias = std::min(group.find('='), group.size());
		text += group.substr(0, alias);
		if (alias < group.size())
			text += " (" + std::string(group.substr(alias + 1)) + ")";
		return false;
	});
	std::replace(text.begin(), text.end(), '=', ' ');
	return text;
}

std::string lowerName(const OptionRow &row)
{
	std::string name(row.name + std::strlen("AUTOAMP_"));
	std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
	return name;
}

std::string keyOf(const OptionRow &row)
{
	const auto option = static_cast<Option>(&row - table);
	// The front reads hookDlsym before the core is loaded; a file cannot name another file.
	const bool isVariable = option == Option::hookDlsym || option == Option::config;
	return isVariable ? std::string() : lowerName(row);
}

} // namespace autoamp::policy
