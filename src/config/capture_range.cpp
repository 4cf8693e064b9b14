#include "src/config/capture_range.h"

namespace autoamp::policy {

namespace {

bool parseNumber(std::string_view text, uint64_t &number)
{
	number = 0;
	for (const char digit : text) {
		if (digit < '0' || digit > '9')
			return false;
		number = number * 10 + static_cast<uint64_t>(digit - '0');
	}
	return !text.empty() && text.size() <= 18;
}

bool take(std::string_view &text, std::string_view beginning)
{
	const bool isThere = text.starts_with(beginning);
	text.remove_prefix(isThere ? beginning.size() : 0);
	return isThere;
}

} // namespace

bool parseCaptureRange(std::string_view text, CaptureRange &range)
{
	range = {};
	if (text.empty())
		return true;
	if (text == "cudaProfilerApi") {
		range.kind = CaptureRange::Kind::profiler;
		return true;
	}
	if (take(text, "nvtx:")) {
		range.kind = CaptureRange::Kind::nvtx;
		range.name = text;
		return !text.empty();
	}
	if (!take(text, "calls:"))
		return false;
	range.kind = CaptureRange::Kind::calls;
	const size_t colon = text.find(':');
	if (colon == text.npos || !parseNumber(text.substr(0, colon), range.first))
		return false;
	const std::string_view last = text.substr(colon + 1);
	if (last.empty())
		range.last = UINT64_MAX;
	else if (!parseNumber(last, range.last))
		return false;
	return range.first >= 1 && range.first <= range.last;
}

bool parseTime(std::string_view text, uint64_t &nanoseconds)
{
	uint64_t unit = 1'000'000'000;
	if (text.ends_with("ms")) {
		unit = 1'000'000;
		text.remove_suffix(2);
	} else if (text.ends_with('s')) {
		text.remove_suffix(1);
	} else if (text.ends_with('m')) {
		unit *= 60;
		text.remove_suffix(1);
	}
	const size_t point = text.find('.');
	const std::string_view decimals = point == text.npos ? "0" : text.substr(point + 1);
	uint64_t whole = 0, part = 0, scale = 1;
	if (!parseNumber(text.substr(0, point), whole) || !parseNumber(decimals, part) || whole > 10'000'000 ||
	    decimals.size() > 6)
		return false;
	for (size_t i = 0; i < decimals.size(); ++i)
		scale *= 10;
	nanoseconds = whole * unit + part * unit / scale;
	return true;
}

} // namespace autoamp::policy
