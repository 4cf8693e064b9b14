#include "tools/autoamp/sheet.h"

#include "tools/autoamp/escape.h"
#include "tools/autoamp/failure.h"

#include <algorithm>

namespace autoamp::tool {

Json orNull(const std::string &text)
{
	return text.empty() ? Json() : Json(text);
}

Json orNull(double number)
{
	return std::isfinite(number) ? Json(number) : Json();
}

Json scaleOrNull(double scale)
{
	return std::isinf(scale) ? Json("inf") : orNull(scale);
}

Json wholeOrNull(double number)
{
	return std::isnan(number) ? Json() : Json(static_cast<uint64_t>(number));
}

Json nanoseconds(double number)
{
	return std::isfinite(number) ? Json(std::llround(number)) : Json();
}

std::string dump(const Json &value)
{
	return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

double numberOf(const Json &row, const std::string &field)
{
	const auto &value = row[field];
	return value.is_number() ? value.get<double>() : NAN;
}

std::string textOf(const Json &value)
{
	return value.is_string() ? value.get<std::string>() : value.is_null() ? "-" : value.dump();
}

Column column(const char *heading, const char *field, char alignment, auto show)
{
	return {heading, field, alignment, [field = std::string(field), show](const Json &row) {
		        const double number = numberOf(row, field);
		        return std::isnan(number) ? std::string("-") : show(number);
	        }};
}

// Orders numbers from the largest, texts from A, and unknown values last.
bool isBefore(const Json &x, const Json &y)
{
	if (x.is_null() || y.is_null())
		return !x.is_null();
	return x.is_string() ? x < y : y < x;
}

} // namespace

Column texts(const char *heading, const char *field)
{
	return {heading, field, 'l', [field = std::string(field)](const Json &row) { return textOf(row[field]); }};
}

Column shapes()
{
	return {"m x n x k", "shape", 'l', [](const Json &row) {
		        std::string text;
		        for (const char *field : {"transa", "transb"})
			        text += row[field].is_string() ? row[field].get<std::string>() : "";
		        return text + (row["shape"].is_string() ? " " + row["shape"].get<std::string>() : "");
	        }};
}

Column counts(const char *heading, const char *field)
{
	return column(heading, field, 'r', [](double number) { return count(static_cast<uint64_t>(number)); });
}

Column amounts(const char *heading, const char *field)
{
	return column(heading, field, 'r', [](double number) { return amount(number); });
}

Column durations(const char *heading, const char *field)
{
	return column(heading, field, 'r', [](double number) { return duration(number); });
}

Column scales(const char *heading, const char *field)
{
	return {heading, field, 'r', [field](const Json &row) {
		        return row[field].is_number() ? scaleText(row[field].get<double>())
		               : row[field].is_null() ? "-"
		                                      : row[field].get<std::string>();
	        }};
}

Column shares(const char *heading, const char *field, double whole)
{
	return column(heading, field, 'r', [whole](double number) { return share(number, whole); });
}

void Sheet::select(const Selection &selection)
{
	if (!selection.sort.empty()) {
		std::vector<std::string> fields;
		for (const auto &[field, value] : sample.items())
			fields.push_back(field);
		if (!sample.contains(selection.sort))
			fail(Status::wrong, "no column '{}' to sort by; there are {}", selection.sort, fmt::join(fields, ", "));
		std::vector<std::pair<Json, size_t>> keyed;
		for (const size_t each : order)
			keyed.emplace_back(at(each)[selection.sort], each);
		std::stable_sort(keyed.begin(), keyed.end(), [](auto &x, auto &y) { return isBefore(x.first, y.first); });
		std::transform(keyed.begin(), keyed.end(), order.begin(), [](auto &each) { return each.second; });
	}
	if (selection.top > 0 && order.size() > selection.top) {
		hidden = order.size() - selection.top;
		order.resize(selection.top);
	}
}

void writeTable(std::FILE *out, const Terminal &terminal, const Sheet &sheet)
{
	std::string alignment;
	std::vector<std::string> cells;
	for (const auto &column : sheet.columns)
		alignment += column.alignment, cells.push_back(column.heading);
	Table table(alignment);
	table.add(cells, Style::bold);
	for (size_t i = 0; i < sheet.size(); i++) {
		const Json row = sheet.row(i);
		std::transform(sheet.columns.begin(), sheet.columns.end(), cells.begin(),
		               [&row](const auto &column) { return column.show(row); });
		const auto decision = row.value("decision", Json());
		table.add(cells, decision == "lowered" ? Style::green : decision == "fallback" ? Style::red : Style::plain);
	}
	fmt::print(out, "{}", table.print(terminal, terminal.width));
}

std::string csvCell(const Json &value)
{
	if (value.is_string())
		return csv(value.get_ref<const std::string &>());
	return value.is_null() ? "" : value.is_structured() ? csv(dump(value)) : value.dump();
}

void writeCsv(std::FILE *out, const Sheet &sheet)
{
	const auto line = [&](const Json &row, bool isHeading) {
		const char *separator = "";
		for (const auto &[field, value] : row.items())
			fmt::print(out, "{}{}", std::exchange(separator, ","), isHeading ? field : csvCell(value));
		std::fputs("\r\n", out);
	};
	line(sheet.sample, true);
	for (size_t i = 0; i < sheet.size(); i++)
		line(sheet.row(i), false);
}

void writeJsonLines(std::FILE *out, const Sheet &sheet)
{
	for (size_t i = 0; i < sheet.size(); i++)
		fmt::print(out, "{}\n", dump(sheet.row(i)));
}

void writeMarkdown(std::FILE *out, const Sheet &sheet)
{
	const auto line = [&](auto cell) {
		std::fputs("|", out);
		for (const auto &column : sheet.columns)
			fmt::print(out, " {} |", cell(column));
		std::fputs("\n", out);
	};
	line([](const Column &column) { return column.heading; });
	line([](const Column &column) { return column.alignment == 'r' ? "---:" : "---"; });
	for (size_t i = 0; i < sheet.size(); i++) {
		const Json row = sheet.row(i);
		line([&row](const Column &column) { return markdown(column.show(row)); });
	}
}

void writeJson(std::FILE *out, const Sheet &sheet)
{
	fmt::print(out, "\"{}\": [", sheet.name);
	for (size_t i = 0; i < sheet.size(); i++)
		fmt::print(out, "{}\n  {}", i ? "," : "", dump(sheet.row(i)));
	std::fputs("]", out);
}

} // namespace autoamp::tool
