// A list as a table of columns. Each view is one list, and each format is written by one function for all lists.
// Values; main thread. Machine-readable formats contain every JSON field of a row, human-readable ones the columns.
#pragma once

#include "tools/autoamp/selection.h"
#include "tools/autoamp/text.h"

#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace autoamp::tool {

using Json = nlohmann::ordered_json;

// Unknown values become null.
Json orNull(const std::string &text);
Json orNull(double number);
Json scaleOrNull(double scale);  // a scale can be infinite: JSON has no such number
Json wholeOrNull(double number); // drops the fraction
Json nanoseconds(double number);
// Text of the application (paths, arguments) may be invalid UTF-8; it is made printable, never rejected.
std::string dump(const Json &value);

struct Column {
	std::string heading, field; // field: sort key where the heading can be clicked
	char alignment;             // l or r
	std::function<std::string(const Json &)> show;
};
Column texts(const char *heading, const char *field);
Column shapes(); // "TN 512x512x64": transposes and sizes
Column counts(const char *heading, const char *field);
Column amounts(const char *heading, const char *field);
Column durations(const char *heading, const char *field);
Column scales(const char *heading, const char *field); // powers of two as 2^n
Column shares(const char *heading, const char *field, double whole);

struct Sheet {
	std::string name, caption; // name: that of the array in JSON
	std::vector<Column> columns;
	std::function<Json(size_t)> at; // creates one row on demand; a long list need not fit in memory
	Json sample;                    // a row of an empty item, for the names of the fields
	std::vector<size_t> order;
	size_t hidden = 0;

	template <typename Item, typename Describe>
	static Sheet of(const char *name, const char *caption, std::vector<Item> items, Describe describe,
	                std::vector<Column> columns)
	{
		Sheet sheet{name, caption, std::move(columns), {}, describe(Item{}), std::vector<size_t>(items.size())};
		for (size_t i = 0; i < items.size(); i++)
			sheet.order[i] = i;
		sheet.at = [items = std::move(items), describe](size_t i) { return describe(items[i]); };
		return sheet;
	}
	size_t size() const { return order.size(); }
	Json row(size_t number) const { return at(order[number]); }
	void select(const Selection &selection);
};

void writeTable(std::FILE *out, const Terminal &terminal, const Sheet &sheet);
void writeCsv(std::FILE *out, const Sheet &sheet); // RFC 4180
void writeJsonLines(std::FILE *out, const Sheet &sheet);
void writeMarkdown(std::FILE *out, const Sheet &sheet);
void writeJson(std::FILE *out, const Sheet &sheet); // the array with its name
std::string csvCell(const Json &value);

} // namespace autoamp::tool
