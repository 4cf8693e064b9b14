#include "tools/autoamp/html_scaling.h"

#include "tools/autoamp/escape.h"
#include "tools/autoamp/gradient.h"
#include "tools/autoamp/html_charts.h"
#include "tools/autoamp/remarks.h"
#include "tools/autoamp/timeline.h"
#include "tools/autoamp/weights.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace autoamp::tool::page {

namespace {

constexpr size_t mostCharts = 8, mostOperands = 100, mostEvents = 200;

// Kinds of events as words, with their meaning for the reader.
constexpr struct Kind {
	const char *name, *word, *many;
	bool isAlert;
	const char *meaning;
} kinds[] = {
    {"init", "first scale", "first scales", false, "First call."},
    {"rescale", "rescale", "rescales", false, "The values changed size; converted again before use. No action."},
    {"underflow", "underflow", "underflows", true, "float16 lost small values of a sampled product."},
    {"mended", "mended", "mended", false, "The product was split before it ran, so that no value was lost."},
    {"uncured", "uncured", "uncured", true,
     "Small values were lost although the product was split; later calls avoid float16."},
    {"overflow", "overflow", "overflows", true,
     "float16 overflowed, because scaling is off: set AUTOAMP_SCALING=auto."},
    {"scale_range", "range", "ranges", true, "No power of two brings all values into the range of float16."},
    {"nonfinite_input", "Inf or NaN", "Inf or NaN", true, "An operand contained Inf or NaN before the conversion."},
    {"clamped", "clamp", "clamps", true, "A finite value beyond the largest bfloat16 was replaced by it."},
    {"made", "copy", "copies", false, "A converted copy of a weight was made. No action."},
    {"recast", "recast", "recasts", false,
     "A kept copy was converted again, because its weight had changed. No action."},
    {"given_up", "copy given up", "copies given up", false, "The weight changes too often to keep a copy. No action."},
    {"refused", "copy refused", "copies refused", false, "No memory for a copy: raise AUTOAMP_MEMORY."},
    {"changed", "change", "changes", true,
     "A weight changed although AUTOAMP_WEIGHTS=frozen; the product used its old values: set AUTOAMP_WEIGHTS=checked."},
};

Kind kindOf(const std::string &name)
{
	for (const auto &kind : kinds)
		if (name == kind.name)
			return kind;
	return {name.c_str(), name.c_str(), name.c_str(), true, ""};
}

// The history of one operand, or of one gradient scaler.
struct History {
	Curve curve;
	size_t events = 0, changes = 0;
	double first = NAN, low = INFINITY, high = -INFINITY, last = NAN, firstAmax = NAN; // scales, and largest value
	void add(double timeNs, double scale)
	{
		if (const double level = std::log2(scale); std::isfinite(level)) {
			if (curve.points.empty())
				first = scale;
			else
				changes += scale != last;
			curve.points.emplace_back(timeNs, level);
			low = std::min(low, scale), high = std::max(high, scale), last = scale;
		}
	}
};

// mm TN 1024x240x1024, operand A
std::string operandName(const trace::RowInfo *row, char operand)
{
	if (!row)
		return fmt::format("unknown call, operand {}", operand);
	const auto letters = row->shape.empty() ? fmt::format(" {}{}", row->transa, row->transb) : "";
	return fmt::format("{}{} {}, operand {}", row->op.empty() ? row->entry : row->op, letters, shapeOf(*row), operand);
}

void add(History &history, const trace::ScalerInfo &event, double startNs)
{
	const auto kind = kindOf(event.kind);
	const double timeNs = event.timeNs + startNs;
	history.events++;
	if (std::isnan(history.firstAmax))
		history.firstAmax = event.amax;
	history.add(timeNs, event.scaleAfter);
	if (event.kind != "init" && !history.curve.points.empty())
		history.curve.marks.push_back({timeNs, history.curve.points.back().second, kind.word, kind.many, kind.isAlert});
}

std::string scaleSentence(const History &history)
{
	return history.curve.points.empty()
	           ? "its scale is unknown"
	           : fmt::format("first 2^{:g}, least {}, most {}, last {}", history.curve.points.front().second,
	                         scaleText(history.low), scaleText(history.high), scaleText(history.last));
}

std::vector<History> operandsOf(const Runs &runs)
{
	const auto starts = startsOf(runs);
	std::map<std::tuple<size_t, std::string, char>, History> operands; // by run and site
	std::map<std::string, int> named;
	for (size_t run = 0; run < runs.size(); run++)
		for (const auto &event : runs[run].scaler) {
			if (isOfWeights(event.kind))
				continue;
			auto &history = operands[{run, event.site, event.operand}];
			const auto *row = runs[run].row(event.row);
			if (history.events == 0) { // sites of several callers or regions can have the same name
				history.curve.title = operandName(row, event.operand);
				history.curve.subtitle = row ? row->entry : "";
				if (runs.size() > 1)
					history.curve.subtitle += ", " + nameOf(runs[run]);
				if (const int count = ++named[history.curve.title + history.curve.subtitle]; count > 1)
					history.curve.title += fmt::format(" ({})", count);
			}
			add(history, event, double(starts[run]));
		}
	std::vector<History> list;
	for (auto &[key, history] : operands) {
		auto &curve = history.curve;
		curve.says =
		    fmt::format("Scale of {}: {}; {}", curve.title, scaleSentence(history), plural(history.events, "event"));
		curve.subtitle += fmt::format(" · {}", plural(history.events, "event"));
		list.push_back(std::move(history));
	}
	const auto alerts = [](const History &each) {
		return std::count_if(each.curve.marks.begin(), each.curve.marks.end(), [](auto &mark) { return mark.isAlert; });
	};
	std::stable_sort(list.begin(), list.end(), [&](const History &x, const History &y) {
		return std::tuple(alerts(x), x.changes, x.events) > std::tuple(alerts(y), y.changes, y.events);
	});
	return list;
}

std::vector<Curve> gradientCurves(const Runs &runs)
{
	const auto starts = startsOf(runs);
	std::vector<Curve> list;
	for (const auto &gradient : gradientsOf(runs)) {
		const auto &info = *gradient.info;
		const double start = double(starts[gradient.run]);
		History history;
		auto &curve = history.curve;
		curve.isOfProgram = true;
		curve.title = "Gradient scaler " + info.name;
		curve.subtitle = fmt::format("{}, {} skipped{}", plural(info.steps, "step"),
		                             gradient.areSkipsKnown() ? count(info.skipped) : "unknown number",
		                             runs.size() > 1 ? ", " + nameOf(runs[gradient.run]) : "");
		for (const auto &[timeNs, scale] : curveOf(gradient))
			history.add(timeNs + start, scale);
		for (const auto &step : gradient.steps)
			if (const double level = std::log2(step.event->scaleAfter); step.isSkipped() && std::isfinite(level))
				curve.marks.push_back({step.event->timeNs + start, level, "skip", "skips", true});
		curve.says =
		    fmt::format("Scale of gradient scaler {}: {}; {}", info.name, curve.subtitle, scaleSentence(history));
		list.push_back(std::move(curve));
	}
	std::stable_sort(list.begin(), list.end(), [](auto &x, auto &y) { return x.points.size() > y.points.size(); });
	return list;
}

std::string drawAll(std::vector<const Curve *> curves, const Axis &clock)
{
	std::string text;
	const size_t all = curves.size();
	curves.resize(std::min(all, mostCharts));
	for (const auto *curve : curves)
		text += draw(*curve, clock);
	if (!text.empty())
		text = "<div class=\"two\">" + text + "</div>\n";
	return all > curves.size()
	           ? text + fmt::format("<p class=\"mut\">and {}</p>\n", plural(all - curves.size(), "more curve"))
	           : text;
}

std::string operandTable(const std::vector<History> &list)
{
	auto body = "<h3>Operands</h3>\n" + tableStart("operands", "Scaled operands",
	                                               {{"Operand"},
	                                                {"Changes", true},
	                                                {"First scale", true},
	                                                {"Least", true},
	                                                {"Most", true},
	                                                {"Last scale", true},
	                                                {"First largest value", true}},
	                                               "sticky");
	const size_t shown = std::min(list.size(), mostOperands);
	const auto scale = [](double value) {
		return std::isfinite(value) ? cell(value, scaleText(value)) : cell(NAN, "–");
	};
	for (size_t i = 0; i < shown; i++) {
		const auto &each = list[i];
		body += fmt::format(
		    "<tr><th scope=\"row\">{}<small> {}</small></th>{}{}{}{}{}{}</tr>\n", withCrosses(html(each.curve.title)),
		    html(each.curve.subtitle), cell(double(each.changes), count(each.changes)), scale(each.first),
		    scale(each.low), scale(each.high), scale(each.last),
		    cell(each.firstAmax, std::isfinite(each.firstAmax) ? fmt::format("{:.3g}", each.firstAmax) : "–"));
	}
	return body + tableEnd + more(list.size() - shown);
}

// Meaning of an event, its error, the rule that avoids it, and the step of the gradient scaler that followed.
std::string meaningOf(const Json &row)
{
	std::string text = html(kindOf(plain(row, "kind")).meaning);
	if (const double excess = number(row, "excess"); !std::isnan(excess))
		text += fmt::format(" Error {:.2g}.", excess);
	if (const double rows = number(row, "lost_rows"), columns = number(row, "lost_columns"); !std::isnan(rows))
		text += fmt::format(" Lost rows: {:.0f}, columns: {:.0f}.", rows, columns);
	if (const auto rule = plain(row, "rule"); !rule.empty())
		text += " Rule that keeps these calls in fp32: <code>" + html(rule) + "</code>";
	if (const auto &ledTo = row["led_to"]; ledTo.is_object())
		text +=
		    fmt::format(" Followed by the skipped step {} of {}.", dump(ledTo["step"]), page::text(ledTo, "scaler"));
	return text;
}

std::string eventRow(const Json &row)
{
	const auto kind = plain(row, "kind");
	const auto entry = page::text(row, "entry");
	const double before = number(row, "scale_before"), after = number(row, "scale_after"), amax = number(row, "amax");
	return fmt::format("<tr><th scope=\"row\"><b{}>{}</b></th><td class=\"num\" data-h=\"Time\">{}</td>"
	                   "<td data-h=\"Operand\">{} {}<small> {}</small></td><td class=\"num\" data-h=\"Scale\">{}{}</td>"
	                   "<td class=\"num\" data-h=\"Largest value\">{}</td><td>{}</td></tr>\n",
	                   kindOf(kind).isAlert ? " class=\"bad\"" : "", html(kind), time(number(row, "time_ns")),
	                   entry.empty() ? "unknown call" : withCrosses(page::text(row, "shape")),
	                   page::text(row, "operand"), entry,
	                   std::isnan(before) || before == after ? "" : scaleText(before) + " → ", scaleText(after),
	                   std::isnan(amax) ? "–" : fmt::format("{:.3g}", amax), meaningOf(row));
}

// Problems first, then the newest. First scales are left out: the table of operands has them.
std::string eventTable(const Sheet &sheet)
{
	std::vector<Json> rows;
	for (size_t i = 0; i < sheet.size(); i++)
		if (Json row = sheet.row(i); plain(row, "kind") != "init")
			rows.push_back(std::move(row));
	std::stable_sort(rows.begin(), rows.end(), [](const Json &x, const Json &y) {
		const auto rank = [](const Json &row) {
			return std::pair(kindOf(plain(row, "kind")).isAlert, std::fmax(number(row, "time_ns"), 0));
		};
		return rank(x) > rank(y);
	});
	if (rows.empty())
		return more(sheet.hidden);
	auto body =
	    "<h3>Events</h3>\n" +
	    tableStart(
	        "events", "Scaling events",
	        {{"Event"}, {"Time", true}, {"Operand"}, {"Scale", true}, {"Largest value", true}, {"Meaning and action"}},
	        "", "cards", false);
	const size_t shown = std::min(rows.size(), mostEvents);
	for (size_t i = 0; i < shown; i++)
		body += eventRow(rows[i]);
	return body + tableEnd + more(rows.size() - shown + sheet.hidden);
}

// A sentence in place of the charts.
std::string nothingScaled(const Runs &runs)
{
	const auto gaps = scalerGaps(runs);
	return gaps.empty() ? "<p>No scale was set.</p>\n"
	                    : "<p>" + html(fmt::format("{}", fmt::join(gaps, "; "))) + "</p>\n";
}

} // namespace

std::string scalingSection(const Runs &runs, const Lists &lists, double wholeNs)
{
	const auto operands = operandsOf(runs);
	const auto gradients = gradientCurves(runs);
	std::vector<const Curve *> changed, ofProgram;
	const auto extend = [&wholeNs](const Curve &curve) {
		for (const auto &point : curve.points)
			wholeNs = std::max(wholeNs, point.first);
	};
	for (const auto &each : operands)
		if (extend(each.curve); each.changes > 0 || !each.curve.marks.empty())
			changed.push_back(&each.curve);
	for (const auto &each : gradients)
		if (extend(each); !each.points.empty())
			ofProgram.push_back(&each);
	const Axis clock(wholeNs, 4, true);
	auto body = section("scaler", "Scaling of float16 operands");
	if (operands.empty())
		body += nothingScaled(runs);
	else
		body +=
		    fmt::format("<p>Each float16 operand has a power of two as scale. Charts show the operands with a change "
		                "or a problem ({} of {}); their clock is that of the timeline.</p>\n",
		                changed.size(), operands.size()) +
		    drawAll(changed, clock) + operandTable(operands);
	body += eventTable(lists.events);
	if (lists.sites.hidden > 0)
		body += table(lists.sites);
	body += "</section>\n";
	if (gradients.empty() && lists.observed.size() == 0)
		return body;
	body += section("gradient-scalers", "Gradient scalers of the program");
	body += ofProgram.empty() ? "<p>The scales are unknown.</p>\n" : drawAll(ofProgram, clock);
	return body + table(lists.gradient) + table(lists.gradientEvents) + table(lists.observed) + "</section>\n";
}

} // namespace autoamp::tool::page
