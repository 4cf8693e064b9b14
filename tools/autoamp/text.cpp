#include "tools/autoamp/text.h"

#include "src/base/quiet_write.h"
#include "src/config/environment.h"
#include "src/config/options.h"
#include "tools/autoamp/escape.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <fmt/format.h>
#include <span>
#include <sstream>
#include <sys/ioctl.h>
#include <unistd.h>

namespace autoamp::tool {

Terminal::Terminal(int file, Colour colour)
{
	const auto value = [](const char *name) { return policy::environmentValue(policy::processEnvironment(), name); };
	const char *noColour = value("NO_COLOR"), *columns = value("COLUMNS");
	const bool isTerminal = ::isatty(file);
	hasColour = colour == Colour::always || (colour == Colour::automatic && isTerminal && !(noColour && *noColour));
	width = columns && isTerminal ? std::strtoul(columns, nullptr, 10) : 0;
	winsize size = {};
	const bool isSized = isTerminal && ::ioctl(file, TIOCGWINSZ, &size) == 0;
	height = isSized ? size.ws_row : 0;
	if (width == 0 && isTerminal)
		width = isSized && size.ws_col > 0 ? size.ws_col : 80;
}

std::string Terminal::paint(Style style, const std::string &text) const
{
	static constexpr const char *codes[] = {"", "\033[1m", "\033[32m", "\033[33m", "\033[31m"};
	return hasColour && style != Style::plain && !text.empty()
	           ? fmt::format("{}{}\033[0m", codes[static_cast<int>(style)], text)
	           : text;
}

std::string count(uint64_t number)
{
	const auto digits = fmt::format("{}", number);
	std::string text;
	for (size_t i = 0; i < digits.size(); i++) {
		if (i > 0 && (digits.size() - i) % 3 == 0)
			text += ',';
		text += digits[i];
	}
	return text;
}

namespace {

// Three digits and a unit; each unit is 1000 times the previous one.
std::string scaled(double number, std::span<const char *const> units)
{
	size_t unit = 0;
	for (; number >= 999.5 && unit + 1 < units.size(); unit++)
		number /= 1000;
	return fmt::format("{:.{}f}{}", number, unit == 0 || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2, units[unit]);
}

} // namespace

std::string amount(double number)
{
	static constexpr const char *units[] = {"", " k", " M", " G", " T", " P", " E"};
	return scaled(number, units);
}

std::string duration(double ns)
{
	static constexpr const char *units[] = {" ns", " us", " ms", " s"};
	return ns >= 0 ? scaled(ns, units) : "-";
}

std::string shape(int64_t m, int64_t n, int64_t k, int64_t batch)
{
	return fmt::format("{}x{}x{}{}", m, n, k, batch == 1 ? "" : fmt::format(" b{}", batch));
}

std::string scaleText(double scale)
{
	if (std::isnan(scale))
		return "-";
	int exponent = 0;
	if (std::isfinite(scale) && std::frexp(scale, &exponent) == 0.5)
		return fmt::format("2^{}", exponent - 1);
	return fmt::format("{:.6g}", scale);
}

std::string share(double part, double whole)
{
	if (!(whole > 0))
		return "-";
	const double percent = 100 * part / whole;
	// 100 % and 0 % are printed only if they are exact: a single kept call must stay visible.
	if (part < whole && percent > 99.9)
		return ">99.9 %";
	return part > 0 && percent < 0.1 ? "<0.1 %" : fmt::format("{:.1f} %", percent);
}

std::string demangled(const std::string &name)
{
	int status = 0;
	char *const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
	const std::string result = status == 0 && text ? text : name;
	std::free(text);
	return result;
}

std::string plural(uint64_t number, const char *noun)
{
	return fmt::format("{} {}{}", count(number), noun, number == 1 ? "" : "s");
}

std::string plural(uint64_t number, const char *one, const char *several)
{
	return fmt::format("{} {}", count(number), number == 1 ? one : several);
}

size_t widthOf(std::string_view text)
{
	return static_cast<size_t>(
	    std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

namespace {

// breaksLists: words that are longer than a line are broken after a comma.
std::string wrapped(const std::string &raw, size_t width, size_t indent, bool breaksLists)
{
	const std::string text = shown(raw);
	std::string lines;
	size_t used = 0; // columns used in the line
	for (size_t at = 0; at < text.size();) {
		const size_t word = std::min(text.find_first_not_of(' ', at), text.size());
		size_t end = std::min(text.find(' ', word), text.size());
		if (breaksLists && indent + end - word > width && width > indent)
			if (const size_t comma = text.rfind(',', word + width - indent - 1); comma != text.npos && comma > word)
				end = comma + 1;
		const std::string_view gap = std::string_view(text).substr(at, word - at),
		                       rest = {text.data() + word, end - word};
		if (width && used && used + gap.size() + widthOf(rest) > width)
			lines += "\n" + std::string(indent, ' '), used = indent;
		else
			lines += gap, used += gap.size();
		lines += rest, used += widthOf(rest);
		at = end;
	}
	return lines;
}

} // namespace

std::string wrap(const std::string &text, size_t width, size_t indent)
{
	return wrapped(text, width, indent, false);
}

std::string fit(const std::string &text, size_t width)
{
	if (width == 0 || widthOf(text) <= width)
		return text;
	size_t bytes = 0;
	for (size_t used = 0; bytes < text.size(); bytes++)
		if ((static_cast<unsigned char>(text[bytes]) & 0xC0) != 0x80 && ++used >= width)
			break;
	return text.substr(0, bytes) + "…";
}

void Table::add(std::vector<std::string> cells, Style style)
{
	for (auto &cell : cells) // names come from files; their escape sequences must not reach a terminal
		cell = shown(cell);
	rows_.push_back({std::move(cells), style});
}

std::vector<size_t> Table::widths() const
{
	std::vector<size_t> widths(alignment_.size());
	for (const auto &row : rows_)
		for (size_t column = 0; column < row.cells.size(); column++)
			widths[column] = std::max(widths[column], widthOf(row.cells[column]));
	return widths;
}

std::string Table::print(const Terminal &terminal, size_t width) const
{
	const auto each = widths();
	const size_t texts = std::min(alignment_.find('r'), alignment_.size()); // columns before the first number
	size_t used = 0;
	for (size_t column = 0; column <= texts && column < each.size(); column++)
		used += each[column] + 2;
	const bool isStacked = width && texts > 0 && texts < alignment_.size() && used - 2 > width;
	std::string result;
	if (!isStacked) {
		for (const auto &line : lines(terminal, width))
			result += line + "\n";
		return result;
	}
	constexpr size_t indent = 4;
	Table rest(alignment_.substr(texts));
	for (const auto &row : rows_) {
		const auto begin = row.cells.begin() + static_cast<ptrdiff_t>(std::min(texts, row.cells.size()));
		rest.rows_.push_back({{begin, row.cells.end()}, row.style});
	}
	const auto others = rest.lines(terminal, width - indent);
	for (size_t i = 0; i < rows_.size(); i++) {
		std::string identity;
		for (size_t column = 0; column < texts && column < rows_[i].cells.size(); column++)
			identity += (column ? "  " : "") + rows_[i].cells[column];
		result += terminal.paint(rows_[i].style, wrap(identity, width, 2)) + "\n";
		std::istringstream parts(others[i]);
		for (std::string part; std::getline(parts, part);)
			result += std::string(indent, ' ') + part + "\n";
	}
	return result;
}

std::vector<std::string> Table::lines(const Terminal &terminal, size_t width) const
{
	constexpr size_t leastRoom = 24;
	const auto widths = this->widths();
	const size_t last = alignment_.size() - 1;
	size_t before = 0; // columns before the last one
	for (size_t column = 0; column < last; column++)
		before += widths[column] + 2;
	const bool isWrapped = last > 0 && alignment_[last] == 'l' && width >= before + leastRoom;
	// A number that is cut reads as another number, so a column of numbers that does not fit is left out.
	size_t columns = 0, room = 0; // the columns that are printed, and their width with gaps
	for (; columns <= last; columns++) {
		const size_t end = room + widths[columns] + (columns < last ? 2 : 0); // the second place of a gap is for "…"
		if (width && columns > 0 && alignment_[columns] == 'r' && end > width)
			break;
		room = end;
	}
	std::vector<std::string> result;
	for (const auto &row : rows_) {
		std::string line;
		for (size_t column = 0; column < std::min(columns, row.cells.size()); column++) {
			const std::string gap(widths[column] - widthOf(row.cells[column]), ' ');
			line += column == 0 ? "" : "  ";
			line += alignment_[column] == 'r' ? gap + row.cells[column] : row.cells[column] + gap;
		}
		line.erase(line.find_last_not_of(' ') + 1);
		const bool isCut = std::any_of(row.cells.begin() + static_cast<ptrdiff_t>(std::min(columns, row.cells.size())),
		                               row.cells.end(), [](auto &cell) { return !cell.empty(); });
		if (isCut)
			line += std::string(room - 1 - widthOf(line), ' ') + "…";
		result.push_back(terminal.paint(row.style, isWrapped ? wrap(line, width, before) : fit(line, width)));
	}
	return result;
}

namespace {

// The column of the second field of a line, which begins after a gap of two spaces; npos: there is none.
size_t secondField(const std::string &line)
{
	const size_t first = line.find_first_not_of(' '), gap = line.find("  ", std::min(first, line.size()));
	return gap == line.npos ? gap : line.find_first_not_of(' ', gap);
}

size_t indentOf(const std::string &line)
{
	return std::min(line.find_first_not_of(' '), line.size());
}

} // namespace

std::string reflow(const std::string &text, size_t width)
{
	constexpr size_t sourceWidth = 88; // a shorter line does not continue
	std::string result, entry, previous;
	const auto flush = [&] {
		const size_t field = secondField(entry), indent = field == entry.npos ? indentOf(entry) : field;
		const size_t hang = indent + 24 <= width ? indent : indentOf(entry) + 2;
		result += (width ? wrapped(entry, width, hang, true) : entry) + "\n";
	};
	std::istringstream lines(text);
	bool isFirst = true;
	for (std::string line; std::getline(lines, line); previous = line) {
		const size_t indent = indentOf(line), field = secondField(entry);
		const size_t word = std::min(line.find(' ', indent), line.size()) - indent;
		const bool isAligned =
		    field != entry.npos ? indent == field : indent == indentOf(entry) && secondField(line) == line.npos;
		const bool isFull = previous.size() + 1 + word > sourceWidth;
		const bool isLabel = word > 0 && line[indent + word - 1] == ':'; // "values: 0, 1"
		const bool isContinued = !isFirst && !line.empty() && !previous.empty() && isAligned && isFull && !isLabel;
		if (isContinued) {
			entry += " " + line.substr(indent);
			continue;
		}
		if (!isFirst)
			flush();
		entry = line, isFirst = false;
	}
	if (!isFirst)
		flush();
	return result;
}

void complain(const std::string &text)
{
	const base::WriteSignals signals; // `autoamp run` must return the status of its program
	std::fputs(text.c_str(), stderr);
}

} // namespace autoamp::tool
