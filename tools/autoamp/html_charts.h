// Charts of the HTML page: SVG whose horizontal coordinates are percentages, so that texts keep their size on a narrow
// screen. Values; main thread. Functions return safe HTML.
#pragma once

#include "tools/autoamp/html_parts.h"

#include <string>
#include <utility>
#include <vector>

namespace autoamp::tool::page {

// A linear axis from 0 with ticks at round numbers.
struct Axis {
	double end = 1, step = 1;
	// Covers `least`; isTight: ends there instead of at the next tick.
	explicit Axis(double least, int ticks, bool isTight = false);
	double percent(double value) const { return 100 * value / end; }
	std::vector<double> ticks() const;
};
// Labels of times in ns, all in one unit: 0, 20 ms, 40 ms.
std::string timeLabel(double ns, const Axis &axis);

// Horizontal bars of equal scale as rows of a table: unchanged, as run, best.
struct BarRow {
	const char *name;
	double unchanged = 0; // drawn in grey if > 0; otherwise `parts`
	ByPrecision parts = {};
	std::string value; // HTML
};
std::string bars(const std::string &title, const std::vector<BarRow> &rows, const Axis &axis);
std::string barAxis(const Axis &axis);

// Calls by time and precision. If an item is later than the last bin, bins are merged.
class Timeline
{
public:
	void add(int64_t startNs, size_t precision);
	void finish(); // at most 120 bins
	double wholeNs() const { return double(width_) * double(bins_.size()); }
	std::string draw(const std::string &title, const Axis &clock) const; // "" without calls
	std::string asTable() const;
	ByPrecision sums() const;

private:
	void merge(size_t factor);
	int64_t width_ = 1000; // ns per bin
	bool isNextFive_ = false;
	std::vector<ByPrecision> bins_;
};

// A scale as a function of the time, with named events.
struct Curve {
	struct Mark {
		double timeNs, level;    // level: log2 of the scale
		std::string label, many; // rescale, rescales
		bool isAlert;
	};
	std::string title, subtitle, says;             // plain text
	bool isOfProgram = false;                      // its gradient scaler
	std::vector<std::pair<double, double>> points; // time and level
	std::vector<Mark> marks;
	bool changes() const;
};
std::string draw(const Curve &curve, const Axis &clock);

} // namespace autoamp::tool::page
