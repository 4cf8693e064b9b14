// Numbers, colours and columns in human-readable form. Values; main thread. Widths count characters, not bytes, because
// file names may be UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autoamp::tool {

enum class Colour { automatic, always, never };
enum class Style { plain, bold, green, yellow, red };

// The capabilities of the stream that text goes to; queried once per stream.
struct Terminal {
	Terminal(int file, Colour colour);
	std::string paint(Style style, const std::string &text) const;

	bool hasColour;
	size_t height; // rows; 0: unknown
	size_t width;  // COLUMNS or that of the terminal; 0: no limit (not a terminal)
};

std::string count(uint64_t number);                                // 12,345
std::string amount(double number);                                 // 1.23 T
std::string duration(double ns);                                   // 2.68 ms; "-" if unknown
std::string shape(int64_t m, int64_t n, int64_t k, int64_t batch); // 512x512x64 b16
std::string scaleText(double scale);                               // 2^16, 0, inf, 1000; "-" if unknown
std::string share(double part, double whole);                      // 93.4 %
// The function name as in the source; unchanged if it is not mangled.
std::string demangled(const std::string &name);
std::string plural(uint64_t number, const char *noun); // 1 call, 2 calls
std::string plural(uint64_t number, const char *one, const char *several);
size_t widthOf(std::string_view text);
std::string fit(const std::string &text, size_t width); // cut with "…"; width 0: uncut
// Makes text safe for a terminal and breaks it between words. Lines after the first are indented; longer words are not
// broken.
std::string wrap(const std::string &text, size_t width, size_t indent);

// Fits a prepared text (help) to the width. Lines that continue an entry or a paragraph, as their indentation shows,
// are joined and broken again.
std::string reflow(const std::string &text, size_t width);

// Rows of cells. Each column is as wide as its widest cell; numbers are right-aligned. A left-aligned last column is
// wrapped if it has enough space; other columns are cut to the terminal. If not even the first column of numbers fits
// next to the texts before it, these texts have a line of their own.
class Table
{
public:
	explicit Table(std::string alignment) : alignment_(std::move(alignment)) {} // one 'l' or 'r' per column
	void add(std::vector<std::string> cells, Style style = Style::plain);
	std::string print(const Terminal &terminal, size_t width) const;

private:
	struct Row {
		std::vector<std::string> cells;
		Style style;
	};
	std::vector<size_t> widths() const;
	std::vector<std::string> lines(const Terminal &terminal, size_t width) const; // one text per row

	std::string alignment_;
	std::vector<Row> rows_;
};

// Writes to stderr, unchanged; foreign text must already be safe (escape.h). Ignores a stderr that is closed or full;
// fmt::print would throw.
void complain(const std::string &text);

} // namespace autoamp::tool
