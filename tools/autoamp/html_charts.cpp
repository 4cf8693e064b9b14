#include "tools/autoamp/html_charts.h"

#include "tools/autoamp/escape.h"

#include <algorithm>
#include <fmt/format.h>

namespace autoamp::tool::page {

namespace {

constexpr size_t mostBins = 120, fineBins = 240;
constexpr double timelineHeight = 170, curveHeight = 130;

// The smallest of 1, 2, 5, 10, 20, ... that divides `range` into at most `parts`.
double roundStep(double range, int parts)
{
	const double least = range / parts, power = std::pow(10, std::floor(std::log10(least)));
	for (const double factor : {1.0, 2.0, 5.0})
		if (factor * power >= least * (1 - 1e-9))
			return factor * power;
	return 10 * power;
}

std::string rectangle(const char *style, const char *colour, double x, double width, int y, int height)
{
	return fmt::format("<rect class=\"{}\" fill=\"{}\" x=\"{:.2f}%\" y=\"{}\" width=\"{:.2f}%\" height=\"{}\"/>", style,
	                   colour, x, y, std::max(width - 0.12, 0.2), height);
}

std::string bar(const BarRow &row, const Axis &axis)
{
	std::string body;
	if (row.unchanged > 0)
		body = rectangle("req", "#8a929b", 0, axis.percent(row.unchanged), 2, 16);
	double x = 0;
	for (size_t p = 0; p < precisions.size(); p++) {
		if (row.parts[p] <= 0)
			continue;
		const auto &[field, style, name, colour] = precisions[p];
		const double width = axis.percent(row.parts[p]);
		body += rectangle(style, colour, x, width, 2, 16);
		if (width > 9) // a phone shows the names in the wider half of them
			body += fmt::format(
			    "<text class=\"in{}\" fill=\"#fff\" x=\"{:.2f}%\" y=\"14\" text-anchor=\"middle\">{}</text>",
			    width > 30 ? "" : " s", x + width / 2, name);
		x += width;
	}
	return "<svg width=\"100%\" height=\"20\" font-size=\"12\" aria-hidden=\"true\">" + body + "</svg>";
}

// The parts as text, for screen readers.
std::string described(const BarRow &row)
{
	std::string text;
	for (size_t p = 0; p < precisions.size(); p++)
		if (row.parts[p] > 0)
			text += fmt::format("{}{} {}", text.empty() ? "" : ", ", precisions[p].name, time(row.parts[p]));
	return text;
}

std::string anchored(double percent)
{
	return percent < 2 ? "start" : percent > 94 ? "end" : "middle";
}

// Ticks and labels of the time below a plot.
std::string clockTicks(const Axis &clock, double height)
{
	std::string text;
	for (const double at : clock.ticks()) {
		const double x = clock.percent(at);
		text += fmt::format("<line class=\"grid\" stroke=\"#999\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"{1}\" "
		                    "y2=\"{2}\"/><text x=\"{0:.2f}%\" y=\"{3}\" text-anchor=\"{4}\">{5}</text>",
		                    x, height, height + 5, height + 20, anchored(x), timeLabel(at, clock));
	}
	return text;
}

std::string gridLine(double y, const std::string &label)
{
	return fmt::format("<line class=\"grid\" stroke=\"#999\" x1=\"0\" x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>"
	                   "<text x=\"-8\" y=\"{1:.1f}\" text-anchor=\"end\">{2}</text>",
	                   y, y + 4, label);
}

std::string callsLabel(double calls)
{
	return calls >= 1e6   ? fmt::format("{:g} M", calls / 1e6)
	       : calls >= 1e4 ? fmt::format("{:g} k", calls / 1e3)
	                      : fmt::format("{:g}", calls);
}

std::string figure(const std::string &caption, const std::string &says, double height, const std::string &body)
{
	return fmt::format("<figure><figcaption>{}</figcaption><div class=\"plot\"><svg width=\"100%\" height=\"{}\" "
	                   "font-size=\"12\" role=\"img\" aria-label=\"{}\">{}</svg></div></figure>\n",
	                   caption, height, html(says), body);
}

} // namespace

Axis::Axis(double least, int ticks, bool isTight)
{
	least = least > 0 && std::isfinite(least) ? least : 1;
	step = roundStep(least, ticks);
	end = isTight ? least : step * std::ceil(least / step - 1e-9);
}

std::vector<double> Axis::ticks() const
{
	std::vector<double> list;
	for (int i = 0; i * step <= end * (1 + 1e-9); i++)
		list.push_back(i * step);
	return list;
}

std::string timeLabel(double ns, const Axis &axis)
{
	if (ns == 0)
		return "0";
	const auto [unit, name] = axis.end >= 1e9   ? std::pair(1e9, "s")
	                          : axis.end >= 1e6 ? std::pair(1e6, "ms")
	                          : axis.end >= 1e3 ? std::pair(1e3, "µs")
	                                            : std::pair(1.0, "ns");
	return fmt::format("{:g} {}", ns / unit, name);
}

std::string bars(const std::string &title, const std::vector<BarRow> &rows, const Axis &axis)
{
	auto text = "<tbody><tr><th scope=\"rowgroup\" colspan=\"3\">" + title + "</th></tr>\n";
	for (const auto &row : rows)
		text += fmt::format(
		    "<tr><th scope=\"row\">{}</th><td>{}<span class=\"vh\">{}</span></td><td class=\"num\">{}</td></tr>\n",
		    row.name, bar(row, axis), described(row), row.value);
	return text + "</tbody>\n";
}

std::string barAxis(const Axis &axis)
{
	std::string body;
	const auto ticks = axis.ticks();
	for (size_t i = 0; i < ticks.size(); i++) {
		const double x = axis.percent(ticks[i]);
		const bool isOnPhone = ticks.size() < 4 || i % 2 == 0; // the others have no space there
		body += fmt::format("<line class=\"grid\" stroke=\"#999\" x1=\"{0:.2f}%\" x2=\"{0:.2f}%\" y1=\"0\" y2=\"5\"/>"
		                    "<text class=\"{3}\" x=\"{0:.2f}%\" y=\"18\" text-anchor=\"{1}\">{2}</text>",
		                    x, anchored(x), timeLabel(ticks[i], axis), isOnPhone ? "" : "s");
	}
	return "<tbody aria-hidden=\"true\"><tr class=\"axis\"><td></td><td><svg width=\"100%\" height=\"20\" "
	       "font-size=\"12\">" +
	       body + "</svg></td><td></td></tr></tbody>\n";
}

void Timeline::merge(size_t factor)
{
	std::vector<ByPrecision> merged((bins_.size() + factor - 1) / factor);
	for (size_t i = 0; i < bins_.size(); i++)
		for (size_t p = 0; p < precisions.size(); p++)
			merged[i / factor][p] += bins_[i][p];
	bins_ = std::move(merged);
	width_ *= static_cast<int64_t>(factor);
}

void Timeline::add(int64_t startNs, size_t precision)
{
	startNs = std::max<int64_t>(0, startNs);
	while (startNs / width_ >= static_cast<int64_t>(fineBins)) {
		merge(isNextFive_ ? 5 : 2); // widths of 1, 2, 10, 20, 100 us, ...
		isNextFive_ = !isNextFive_;
	}
	const auto at = static_cast<size_t>(startNs / width_);
	if (bins_.size() <= at)
		bins_.resize(at + 1);
	bins_[at][precision]++;
}

void Timeline::finish()
{
	if (bins_.size() > mostBins)
		merge(isNextFive_ ? 5 : 2);
}

ByPrecision Timeline::sums() const
{
	ByPrecision sums = {};
	for (const auto &bin : bins_)
		for (size_t p = 0; p < precisions.size(); p++)
			sums[p] += bin[p];
	return sums;
}

std::string Timeline::draw(const std::string &title, const Axis &clock) const
{
	const auto all = sums();
	double most = 0;
	for (const auto &bin : bins_)
		most = std::max(most, sumOf(bin));
	if (most == 0)
		return "";
	const Axis calls(most, 4);
	std::string body, says = fmt::format("Calls per {} by precision, at most {}: ", time(double(width_)), most);
	for (const double at : calls.ticks())
		if (at == std::floor(at))
			body += gridLine(timelineHeight * (1 - at / calls.end), callsLabel(at));
	body += fmt::format("<svg width=\"100%\" height=\"{}\" viewBox=\"0 0 {:.6g} {:g}\" preserveAspectRatio=\"none\">",
	                    timelineHeight, clock.end / double(width_), calls.end);
	std::vector<double> base(bins_.size());
	const char *separator = "";
	for (size_t p = 0; p < precisions.size(); p++) {
		std::string path;
		for (size_t i = 0; i < bins_.size(); i++) {
			base[i] += bins_[i][p];
			if (bins_[i][p] > 0)
				path += fmt::format("M{}.06 {:g}h.88v{:g}h-.88z", i, calls.end - base[i], bins_[i][p]);
		}
		if (path.empty())
			continue;
		body +=
		    fmt::format("<path class=\"{}\" fill=\"{}\" d=\"{}\"/>", precisions[p].style, precisions[p].colour, path);
		says += fmt::format("{}{} in {}", std::exchange(separator, ", "), count(static_cast<uint64_t>(all[p])),
		                    precisions[p].name);
	}
	body += "</svg>" + clockTicks(clock, timelineHeight);
	return figure(fmt::format("<b>{}</b> Calls per {}.", title, time(double(width_))), says, timelineHeight, body);
}

std::string Timeline::asTable() const
{
	constexpr size_t most = 12; // rows
	const auto all = sums();
	std::vector<Head> heads = {{"From"}};
	for (size_t p = 0; p < precisions.size(); p++)
		if (all[p] > 0)
			heads.push_back({precisions[p].name, true});
	auto text =
	    "<details><summary>Timeline as a table</summary>\n" + tableStart("bins", "Timeline", heads, "", "", false);
	const size_t together = (bins_.size() + most - 1) / most;
	for (size_t first = 0; first < bins_.size(); first += together) {
		text += fmt::format("<tr><th scope=\"row\">{}</th>", first ? time(double(width_) * double(first)) : "0");
		for (size_t p = 0; p < precisions.size(); p++) {
			double calls = 0;
			for (size_t i = first; i < std::min(first + together, bins_.size()); i++)
				calls += bins_[i][p];
			if (all[p] > 0)
				text += cell(calls, count(static_cast<uint64_t>(calls)));
		}
		text += "</tr>\n";
	}
	return text + tableEnd + "</details>\n";
}

bool Curve::changes() const
{
	return std::any_of(points.begin(), points.end(),
	                   [&](auto &point) { return point.second != points.front().second; });
}

namespace {

// Levels of a curve as heights. There is space for labels above and below.
struct Levels {
	double low = INFINITY, high = -INFINITY;
	explicit Levels(const Curve &curve)
	{
		for (const auto &[time, level] : curve.points)
			low = std::min(low, std::floor(level)), high = std::max(high, std::ceil(level));
		if (high - low < 2)
			low--, high++;
	}
	double y(double level) const { return 20 + (high - level) / (high - low) * (curveHeight - 44); }
	double step() const { return std::max(1.0, roundStep(high - low, 4)); }
};

// Steps from point to point. Points whose distance no screen shows share one vertical line.
std::string stepPath(const Curve &curve, const Axis &clock, const Levels &levels)
{
	constexpr double least = 0.4; // percent
	double y = levels.y(curve.points.front().second);
	auto path = fmt::format("M{:.2f} {:.1f}", clock.percent(curve.points.front().first), y);
	for (size_t i = 1; i < curve.points.size();) {
		const double x = clock.percent(curve.points[i].first);
		double top = y, bottom = y, after = y;
		for (; i < curve.points.size() && clock.percent(curve.points[i].first) < x + least; i++) {
			after = levels.y(curve.points[i].second);
			top = std::min(top, after), bottom = std::max(bottom, after);
		}
		if (bottom > top)
			path += fmt::format("H{:.2f}V{:.1f}V{:.1f}V{:.1f}", x, top, bottom, after);
		y = after;
	}
	return path + "H100";
}

std::string dot(const Curve::Mark &mark, double x, double y, const std::string &label, bool isBelow)
{
	const char *anchor = x < 14 ? "start" : x > 86 ? "end" : "middle";
	return fmt::format("<circle class=\"dot{}\" fill=\"#fff\" stroke=\"#111\" cx=\"{:.2f}%\" cy=\"{:.1f}\" r=\"4\"/>"
	                   "<text class=\"ev\" x=\"{:.2f}%\" dx=\"{}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>",
	                   mark.isAlert ? " alert" : "", x, y, x,
	                   x < 14   ? 7
	                   : x > 86 ? -7
	                            : 0,
	                   y + (isBelow ? 19 : -9), anchor, html(label));
}

// Marks that are close to each other share one label.
std::string drawMarks(const Curve &curve, const Axis &clock, const Levels &levels)
{
	constexpr double together = 34; // percent
	std::string text;
	bool isBelow = false;
	for (size_t first = 0; first < curve.marks.size(); isBelow = !isBelow) {
		size_t end = first, alerts = first;
		bool isOneKind = true;
		const double x = clock.percent(curve.marks[first].timeNs);
		for (; end < curve.marks.size() && clock.percent(curve.marks[end].timeNs) < x + together; end++) {
			isOneKind &= curve.marks[end].label == curve.marks[first].label;
			if (curve.marks[end].isAlert && !curve.marks[alerts].isAlert)
				alerts = end;
		}
		const auto &mark = curve.marks[alerts];
		const size_t size = end - first;
		const auto label = size == 1   ? mark.label
		                   : isOneKind ? fmt::format("{} {}", size, mark.many)
		                               : fmt::format("{} + {}", mark.label, size - 1);
		text += dot(mark, clock.percent(mark.timeNs), levels.y(mark.level), label, isBelow);
		first = end;
	}
	return text;
}

} // namespace

std::string draw(const Curve &curve, const Axis &clock)
{
	if (curve.points.empty())
		return "";
	const Levels levels(curve);
	std::string body;
	for (double level = levels.low; level <= levels.high; level += levels.step())
		body += gridLine(levels.y(level), fmt::format("2^{:g}", level));
	body += fmt::format("<svg width=\"100%\" height=\"{0}\" viewBox=\"0 0 100 {0}\" preserveAspectRatio=\"none\"><path "
	                    "class=\"step-line{1}\" fill=\"none\" stroke=\"{2}\" d=\"{3}\"/></svg>",
	                    curveHeight, curve.isOfProgram ? " own" : "", curve.isOfProgram ? "#b1580d" : "#0456f0",
	                    stepPath(curve, clock, levels));
	body += drawMarks(curve, clock, levels) + clockTicks(clock, curveHeight);
	return figure(fmt::format("<b>{}</b><br>{}", withCrosses(html(curve.title)), html(curve.subtitle)), curve.says,
	              curveHeight, body);
}

} // namespace autoamp::tool::page
