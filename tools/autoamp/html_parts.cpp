#include "tools/autoamp/html_parts.h"

#include "tools/autoamp/escape.h"
#include "tools/page.h"

#include <algorithm>
#include <fmt/format.h>

namespace autoamp::tool::page {

namespace {

constexpr size_t tableRows = 500, cellLength = 400;

// The hash of a text in hexadecimal digits as a source of a content security policy.
std::string policySource(std::string_view hash)
{
	static constexpr const char *digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const auto nibble = [&](size_t i) -> uint32_t {
		return i >= hash.size() ? 0 : static_cast<uint32_t>(hash[i] <= '9' ? hash[i] - '0' : hash[i] - 'a' + 10);
	};
	std::string base64;
	for (size_t i = 0; i < hash.size(); i += 3) { // 12 bits
		const uint32_t bits = nibble(i) << 8 | nibble(i + 1) << 4 | nibble(i + 2);
		base64 += digits[bits >> 6], base64 += digits[bits & 63];
	}
	base64.resize((hash.size() * 4 + 5) / 6); // without the digits of missing nibbles
	base64.append((4 - base64.size() % 4) % 4, '=');
	return "'sha256-" + base64 + "'";
}

} // namespace

size_t precisionOf(std::string_view field)
{
	return static_cast<size_t>(std::find_if(precisions.begin(), precisions.end() - 1,
	                                        [field](const Precision &each) { return each.field == field; }) -
	                           precisions.begin());
}

double sumOf(const ByPrecision &parts)
{
	double sum = 0;
	for (const double part : parts)
		sum += part;
	return sum;
}

namespace {

std::string swatch(size_t precision, int size)
{
	const auto &[field, style, name, colour] = precisions[precision];
	return fmt::format("<svg width=\"{0}\" height=\"{0}\" aria-hidden=\"true\"><rect class=\"{1}\" fill=\"{2}\" "
	                   "width=\"{0}\" height=\"{0}\"/></svg> ",
	                   size, style, colour);
}

} // namespace

std::string legend(const ByPrecision &parts)
{
	std::string items;
	for (size_t p = 0; p < precisions.size(); p++)
		if (parts[p] > 0)
			items += fmt::format("<li>{}{}</li>", swatch(p, 12), precisions[p].name);
	return items.empty() ? "" : "<ul class=\"legend\" aria-label=\"Precisions\">" + items + "</ul>\n";
}

std::string plain(const Json &row, const char *field)
{
	const auto found = row.find(field);
	return found == row.end() || found->is_null() ? "" : found->is_string() ? found->get<std::string>() : dump(*found);
}

std::string text(const Json &row, const char *field)
{
	return html(plain(row, field));
}

double number(const Json &row, const char *field)
{
	const auto found = row.find(field);
	return found != row.end() && found->is_number() ? found->get<double>() : NAN;
}

bool isTrue(const Json &row, const char *field)
{
	const auto found = row.find(field);
	return found != row.end() && found->is_boolean() && found->get<bool>();
}

std::string time(double ns)
{
	auto text = std::isnan(ns) ? std::string("–") : duration(ns);
	if (text.ends_with(" us"))
		text.replace(text.size() - 2, 1, "µ");
	return text;
}

std::string withCrosses(std::string text)
{
	for (size_t at = 1; at + 1 < text.size(); at++)
		if (text[at] == 'x' && std::isdigit(static_cast<unsigned char>(text[at - 1])) &&
		    std::isdigit(static_cast<unsigned char>(text[at + 1])))
			text.replace(at, 1, "×");
	return text;
}

std::string transposes(const Json &row)
{
	const bool isProduct = plain(row, "shape").find(' ') == std::string::npos || plain(row, "op") == "bmm";
	return isProduct ? text(row, "transa") + text(row, "transb") : "";
}

std::string signature(const Json &row)
{
	std::string name = plain(row, "op").empty() ? text(row, "entry") : text(row, "op");
	if (const auto letters = transposes(row); !letters.empty())
		name += " " + letters;
	return name + " " + withCrosses(text(row, "shape"));
}

std::string baseName(const Json &row, const char *field)
{
	const auto path = plain(row, field);
	return html(path.substr(path.rfind('/') + 1));
}

std::string tag(std::string_view text)
{
	return fmt::format("<span class=\"tag\">{}</span>", text);
}

std::string chip(size_t precision, const std::string &label)
{
	return fmt::format("<span class=\"chip\">{}{}</span>", swatch(precision, 10), label);
}

std::string ratio(double before, double after)
{
	if (!(before > 0) || !(after > 0))
		return "";
	const double factor = before / after;
	if (std::abs(factor - 1) < 0.005)
		return "<span class=\"mut\">same</span>";
	return factor > 1 ? fmt::format("<span class=\"good\">{:.2f}× faster</span>", factor)
	                  : fmt::format("<span class=\"bad\">{:.2f}× slower</span>", 1 / factor);
}

std::string note(const std::string &text)
{
	return "<p class=\"note\" role=\"note\">" + html(text) + "</p>\n";
}

std::string more(size_t rows, const std::string &remark)
{
	return rows == 0 ? ""
	                 : fmt::format("<p class=\"mut\">and {}{}; <code>--format csv</code> prints all</p>\n",
	                               plural(rows, "more row"), remark);
}

std::string tableStart(const char *id, const std::string &caption, const std::vector<Head> &heads, const char *boxClass,
                       const char *tableClass, bool isSortable)
{
	// Reset display values of cards would hide the table from screen readers without the explicit role.
	auto text =
	    fmt::format("<div class=\"scroll {}\" role=\"region\" aria-label=\"{}, scrollable\" tabindex=\"0\">"
	                "<table id=\"{}\" class=\"{}\" role=\"table\"{}><caption class=\"vh\">{}</caption><thead><tr>",
	                boxClass, caption, id, tableClass, isSortable ? " data-sort" : "", caption);
	for (const auto &head : heads)
		text += fmt::format("<th scope=\"col\"{}{}>{}</th>", head.isNumber ? " class=\"num\"" : "",
		                    head.sorted ? fmt::format(" data-sorted=\"{}\"", head.sorted) : "", head.title);
	return text + "</tr></thead><tbody>\n";
}

std::string cell(double number, const std::string &label)
{
	return fmt::format("<td class=\"num\" data-v=\"{}\">{}</td>",
	                   std::isfinite(number) ? fmt::format("{:.6g}", number) : "", label);
}

std::string section(const char *id, const std::string &title)
{
	return fmt::format("<section id=\"{0}\" aria-labelledby=\"h-{0}\"><h2 id=\"h-{0}\">{1}</h2>\n", id, title);
}

std::string table(const Sheet &sheet)
{
	if (sheet.size() == 0 && sheet.hidden == 0)
		return "";
	std::vector<Head> heads;
	for (const auto &column : sheet.columns)
		heads.push_back({column.heading.c_str(), column.alignment == 'r'});
	std::string text = "<h3>" + html(sheet.caption) + "</h3>\n" +
	                   tableStart(("list-" + sheet.name).c_str(), html(sheet.caption), heads, "sticky");
	const size_t shown = std::min(sheet.size(), tableRows);
	for (size_t i = 0; i < shown; i++) {
		const Json row = sheet.row(i);
		text += "<tr>";
		for (const auto &column : sheet.columns) {
			const auto label = html(fit(column.show(row), cellLength));
			text += &column == &sheet.columns.front() ? "<th scope=\"row\">" + label + "</th>"
			        : column.alignment == 'r'         ? cell(number(row, column.field.c_str()), label)
			                                          : "<td>" + label + "</td>";
		}
		text += "</tr>\n";
	}
	return text + tableEnd + more(sheet.size() - shown + sheet.hidden);
}

std::string documentStart(const std::string &title)
{
	return fmt::format(
	    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
	    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
	    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; script-src {}; "
	    "base-uri 'none'; form-action 'none'\">\n<meta name=\"color-scheme\" content=\"light dark\">"
	    "<meta name=\"generator\" content=\"autoamp {}\">\n<title>{}</title>\n<style>{}</style></head>\n"
	    "<body><div class=\"page\">\n",
	    policySource(styleHash), policySource(scriptHash), AUTOAMP_VERSION, html(title), styleText);
}

std::string documentEnd()
{
	return fmt::format("</div>\n<p id=\"said\" class=\"vh\" role=\"status\" aria-live=\"polite\"></p>\n"
	                   "<script>{}</script></body></html>\n",
	                   scriptText);
}

} // namespace autoamp::tool::page
