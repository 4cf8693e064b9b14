#include "src/config/option_values.h"

#include "src/config/capture_range.h"
#include "src/lists/split.h"

namespace autoamp::policy {

int valueIndex(std::string_view words, std::string_view value)
{
	int index = -1;
	bool found = anyPart(words, ' ', [&](std::string_view group) {
		++index;
		return anyPart(group, '=', [&](std::string_view word) { return word == value; });
	});
	return found ? index : -1;
}

bool parseSize(std::string_view text, uint64_t &bytes)
{
	unsigned shift = 0;
	if (!text.empty()) {
		constexpr std::string_view units = "KMG";
		size_t unit = units.find(text.back());
		if (unit != std::string_view::npos) {
			shift = 10 * static_cast<unsigned>(unit + 1);
			text.remove_suffix(1);
		}
	}
	if (text.empty() || text.size() > 19)
		return false;
	uint64_t number = 0;
	for (char digit : text) {
		if (digit < '0' || digit > '9')
			return false;
		number = number * 10 + static_cast<uint64_t>(digit - '0');
	}
	bytes = number << shift;
	return bytes >> shift == number;
}

// Up to six decimals, without an exponent.
bool parseFraction(std::string_view text, uint64_t &period)
{
	const size_t point = std::min(text.find('.'), text.size());
	const std::string_view whole = text.substr(0, point), decimals = text.substr(std::min(point + 1, text.size()));
	constexpr size_t mostDecimals = 6;
	if ((whole != "0" && whole != "1" && !whole.empty()) || decimals.size() > mostDecimals ||
	    (whole.empty() && decimals.empty()) || (point < text.size() && decimals.empty()))
		return false;
	uint64_t millionths = whole == "1" ? 1 : 0;
	for (size_t i = 0; i < mostDecimals; ++i) {
		const char digit = i < decimals.size() ? decimals[i] : '0';
		if (digit < '0' || digit > '9')
			return false;
		millionths = millionths * 10 + static_cast<uint64_t>(digit - '0');
	}
	constexpr uint64_t one = 1'000'000;
	period = millionths == 0 ? 0 : (one + millionths / 2) / millionths;
	return millionths <= one;
}

bool toNumber(const OptionRow &row, std::string_view value, uint64_t &number)
{
	if (row.type == ValueType::size)
		return parseSize(value, number);
	if (row.type == ValueType::time)
		return parseTime(value, number);
	if (row.type == ValueType::fraction)
		return parseFraction(value, number);
	if (CaptureRange range; row.type == ValueType::range)
		return parseCaptureRange(value, range);
	const int word = row.type == ValueType::choice ? valueIndex(row.values, value) : 0;
	if (word >= 0) // otherwise keep the default: fillFields() uses it as an index into tables
		number = static_cast<uint64_t>(word);
	return word >= 0;
}

bool isAsUnset(const OptionRow &row, std::string_view value)
{
	return value.empty() && (row.type == ValueType::text || row.type == ValueType::range);
}

} // namespace autoamp::policy
