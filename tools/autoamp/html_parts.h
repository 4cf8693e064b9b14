// Parts of HTML pages: names, numbers, precisions, tables. Values; main thread. Functions return safe HTML: texts of
// traces are escaped here and nowhere else.
#pragma once

#include "tools/autoamp/account.h"
#include "tools/autoamp/sheet.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace autoamp::tool::page {

// Precisions in the order in which bars stack them.
struct Precision {
	const char *field, *style, *name, *colour; // value in JSON, class, text, and colour without the style sheet
};
inline constexpr std::array<Precision, 5> precisions = {{{"float16", "fp16", "float16", "#0456f0"},
                                                         {"bfloat16", "bf16", "bfloat16", "#0f4a29"},
                                                         {"tf32", "tf32", "TF32", "#b1580d"},
                                                         {"float32", "fp32", "fp32", "#636c75"},
                                                         {"", "other", "other", "#c511ab"}}};
using ByPrecision = std::array<double, precisions.size()>;
size_t precisionOf(std::string_view field); // index in `precisions`
double sumOf(const ByPrecision &parts);
std::string legend(const ByPrecision &parts); // the precisions that occur

// Values of a row. Null and missing ones are "" and NaN.
std::string text(const Json &row, const char *field); // escaped
std::string plain(const Json &row, const char *field);
double number(const Json &row, const char *field);
bool isTrue(const Json &row, const char *field);

std::string time(double ns);                              // 2.68 ms; "–" if unknown
std::string withCrosses(std::string text);                // × in shapes
std::string signature(const Json &row);                   // mm TN 1024×240×1024
std::string transposes(const Json &row);                  // TN; "" for convolutions
std::string baseName(const Json &row, const char *field); // file name of a path
std::string tag(std::string_view text);
std::string chip(size_t precision, const std::string &label);
// "1.18× faster", "1.09× slower" or "same"; "" if a time is unknown.
std::string ratio(double before, double after);

std::string note(const std::string &text); // an amber line; the text is escaped
// "and 12 more rows; --format csv prints all"; "" for none.
std::string more(size_t rows, const std::string &remark = {});

struct Head {
	const char *title;
	bool isNumber = false;
	const char *sorted = nullptr; // "descending": the order of the rows
};
// The start of a table in a scrollable box, up to the head. The caller closes it with tableEnd.
std::string tableStart(const char *id, const std::string &caption, const std::vector<Head> &heads,
                       const char *boxClass = "", const char *tableClass = "", bool isSortable = true);
inline constexpr const char *tableEnd = "</tbody></table></div>\n";
// A number with its sort key; `label` is HTML.
std::string cell(double number, const std::string &label);

std::string section(const char *id, const std::string &title); // its start; `title` is HTML

// A list with the columns that it has on a terminal. "" if it is empty.
std::string table(const Sheet &sheet);

// A whole document: the style and the script are allowed by their hashes.
std::string documentStart(const std::string &title); // escaped here
std::string documentEnd();

} // namespace autoamp::tool::page
