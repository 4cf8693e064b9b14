// The report as one HTML file: no network access, charts as inline SVG, sortable tables. Its size does not grow with
// the trace: the timeline is drawn from bins, and tables have a maximum number of rows.
#include "tools/autoamp/escape.h"
#include "tools/autoamp/gradient.h"
#include "tools/autoamp/remarks.h"
#include "tools/autoamp/timeline.h"
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"

#include <array>
#include <map>

namespace autoamp::tool {

namespace {

constexpr size_t pageWidth = 120, tableRows = 1500, maxBins = 480, ops = 12, maxLines = 8, maxMarks = 100;
constexpr double chartWidth = 960, chartHeight = 160, labels = 190;
constexpr const char *precisions[] = {"float32", "tf32", "bfloat16", "float16", "other"};
constexpr size_t precisionCount = std::size(precisions);
using ByPrecision = std::array<double, precisionCount>;

constexpr const char *head = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--line:#d0d7de;--soft:#f3f5f7;--p0:#6e7781;--p1:#b35900;--p2:#0a7d55;--p3:#0b5cad;--p4:#8250a0}
@media(prefers-color-scheme:dark){:root{--back:#0f1318;--text:#e4e8ec;--line:#38414b;--soft:#1a2027;--p0:#9aa4ae;--p1:#f0a050;--p2:#4cc38a;--p3:#6cb0f5;--p4:#c39be0}}
body{background:var(--back);color:var(--text);font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:76rem;padding:1rem}
pre,.warning{background:var(--soft);padding:.75rem;overflow-x:auto}.warning{border-left:.3rem solid var(--p1);font-weight:600}
svg{width:100%;height:auto;background:var(--soft)}svg text{fill:var(--text);font-size:12px}svg.lines{height:182px}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}caption{text-align:left;font-weight:600;padding:.4rem 0}
th,td{border-bottom:1px solid var(--line);padding:.2rem .5rem;text-align:left;white-space:nowrap}.r{text-align:right;font-variant-numeric:tabular-nums}
th button{all:unset;cursor:pointer;font-weight:600}th button:focus-visible{outline:2px solid var(--p3)}
th[aria-sort=ascending] button::after{content:" \25B2"}th[aria-sort=descending] button::after{content:" \25BC"}
.key{display:inline-block;width:.9em;height:.9em;margin:0 .3em 0 1em}.hidden{position:absolute;clip-path:inset(50%);width:1px;height:1px}
.p0{fill:var(--p0);background:var(--p0)}.p1{fill:var(--p1);background:var(--p1)}.p2{fill:var(--p2);background:var(--p2)}.p3{fill:var(--p3);background:var(--p3)}.p4{fill:var(--p4);background:var(--p4)}
.l{fill:none;stroke-width:1.5}.l0{stroke:var(--p3)}.l1{stroke:var(--p1)}.l2{stroke:var(--p2)}.l3{stroke:var(--p4)}.m{fill:var(--back)}
</style>
)";

constexpr const char *tail = R"(<p id="said" class="hidden" role="status" aria-live="polite"></p></main>
<script>
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const th = button.parentElement, table = th.closest("table"), body = table.tBodies[0], at = th.cellIndex;
  const isNumber = th.classList.contains("r"), was = th.getAttribute("aria-sort");
  const down = was === "none" ? isNumber : was === "ascending", sign = down ? -1 : 1;
  const value = row => { const cell = row.cells[at]; return isNumber ? cell.dataset.v === undefined ? NaN : +cell.dataset.v : cell.textContent; };
  const rows = [...body.rows].map(row => [value(row), row]);
  rows.sort(([x], [y]) => isNumber ? isNaN(x) - isNaN(y) || sign * (x - y) || 0 : sign * x.localeCompare(y));
  body.append(...rows.map(([, row]) => row));
  for (const other of th.parentElement.cells) other.setAttribute("aria-sort", other === th ? down ? "descending" : "ascending" : "none");
  document.getElementById("said").textContent = `${table.caption.textContent}: sorted by ${button.textContent}, ${down ? "descending" : "ascending"}`;
});
</script></body></html>
)";

size_t precisionOf(const trace::RowInfo *row)
{
	const std::string word = row ? row->dtypeCompute : "";
	return static_cast<size_t>(std::find(precisions, precisions + precisionCount - 1, word) - precisions);
}

// Calls by time and precision. If an item is later than the last bin, pairs of bins are merged.
struct Timeline {
	int64_t width = 1000; // ns per bin
	std::vector<ByPrecision> bins;
	void add(const Item &item)
	{
		auto at = static_cast<size_t>(std::max<int64_t>(0, item.startNs) / width);
		while (at >= maxBins) {
			for (size_t i = 0; i < bins.size(); i++)
				for (size_t p = 0; p < precisionCount; p++)
					i % 2 ? bins[i / 2][p] += bins[i][p] : bins[i / 2][p] = bins[i][p];
			bins.resize((bins.size() + 1) / 2);
			width *= 2, at /= 2;
		}
		if (bins.size() <= at)
			bins.resize(at + 1);
		bins[at][precisionOf(item.row)]++;
	}
};

double sumOf(const ByPrecision &parts)
{
	double sum = 0;
	for (const double part : parts)
		sum += part;
	return sum;
}

std::string legend(const ByPrecision &sums)
{
	std::string text = "<p aria-hidden=\"true\">";
	for (size_t p = 0; p < precisionCount; p++)
		if (sums[p] > 0)
			text += fmt::format("<span class=\"key p{}\"></span>{}", p, precisions[p]);
	return text + "</p>\n";
}

std::string chart(const char *id, const std::string &title, const std::string &says, double height,
                  const std::string &body)
{
	return fmt::format(
	    "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{}-t {}-d\"><title id=\"{}-t\">{}</title>"
	    "<desc id=\"{}-d\">{}</desc>{}</svg>\n",
	    chartWidth, height, id, id, id, title, id, html(says), body);
}

std::string drawTimeline(const Timeline &timeline)
{
	ByPrecision sums = {};
	double most = 0;
	for (const auto &bin : timeline.bins) {
		most = std::max(most, sumOf(bin));
		for (size_t p = 0; p < precisionCount; p++)
			sums[p] += bin[p];
	}
	if (most == 0)
		return "<p>No single calls were recorded (AUTOAMP_TRACE=ops records them).</p>\n";
	const double step = chartWidth / static_cast<double>(timeline.bins.size());
	std::string body, says;
	std::vector<double> base(timeline.bins.size());
	for (size_t p = 0; p < precisionCount; p++) {
		if (sums[p] == 0)
			continue;
		std::string path;
		for (size_t i = 0; i < timeline.bins.size(); i++) {
			const double height = timeline.bins[i][p] / most * chartHeight;
			if (height > 0)
				path += fmt::format("M{:.1f} {:.1f}h{:.2f}v{:.1f}h-{:.2f}z", step * double(i), chartHeight - base[i],
				                    step, -height, step);
			base[i] += height;
		}
		body += fmt::format("<path class=\"p{}\" d=\"{}\"><title>{}</title></path>", p, path, precisions[p]);
		says += fmt::format("{}{} {} calls", says.empty() ? "" : ", ", count(static_cast<uint64_t>(sums[p])),
		                    precisions[p]);
	}
	const double whole = static_cast<double>(timeline.width) * static_cast<double>(timeline.bins.size());
	body += fmt::format("<text x=\"4\" y=\"{}\">0</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>"
	                    "<text x=\"4\" y=\"14\">{} calls in {}</text>",
	                    chartHeight + 16, chartWidth - 4, chartHeight + 16, duration(whole),
	                    count(static_cast<uint64_t>(most)), duration(static_cast<double>(timeline.width)));
	return chart("timeline", "Calls over time, by precision", says, chartHeight + 22, body) + legend(sums);
}

const char *titleOf(Times times)
{
	return times == Times::kernels ? "Time in kernels by op and precision"
	       : times == Times::host  ? "Time on the CPU by op and precision"
	                               : "Time by op and precision, by the cost model";
}

std::string drawOps(const std::vector<trace::RowInfo> &rows, Times timesShown)
{
	std::map<std::string, ByPrecision> times;
	ByPrecision sums = {};
	for (const auto &row : rows) {
		Sum sum;
		sum.add(row);
		times[row.op.empty() ? row.entry : row.op][precisionOf(&row)] += sum.timeNs(timesShown);
		sums[precisionOf(&row)] += sum.timeNs(timesShown);
	}
	std::erase_if(times, [](auto &each) { return sumOf(each.second) <= 0; }); // precisions without a known time
	std::vector<std::pair<std::string, ByPrecision>> sorted(times.begin(), times.end());
	std::stable_sort(sorted.begin(), sorted.end(), [](auto &x, auto &y) { return sumOf(x.second) > sumOf(y.second); });
	sorted.resize(std::min(sorted.size(), ops));
	if (sorted.empty())
		return "<p>The traces contain no times.</p>\n";
	const double scale = (chartWidth - labels - 90) / sumOf(sorted.front().second);
	std::string body, says;
	for (size_t i = 0; i < sorted.size(); i++) {
		const auto &[name, parts] = sorted[i];
		const double top = 24 * double(i);
		double at = labels;
		body += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", labels - 6, top + 17,
		                    html(fit(name, 28)));
		for (size_t p = 0; p < precisionCount; p++) {
			if (parts[p] <= 0)
				continue;
			body += fmt::format("<rect class=\"p{}\" x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"18\"><title>{} {} "
			                    "{}</title></rect>",
			                    p, at, top + 3, parts[p] * scale, html(name), precisions[p], duration(parts[p]));
			at += parts[p] * scale;
			says += fmt::format("{}{} {} {}", says.empty() ? "" : ", ", name, precisions[p], duration(parts[p]));
		}
		body += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>", at + 6, top + 17, duration(sumOf(parts)));
	}
	return chart("ops-chart", titleOf(timesShown), says, 24 * double(sorted.size()) + 6, body) + legend(sums);
}

// A scale as a function of the time: points of time and log2 of the scale, and marks with a text.
struct Line {
	struct Mark {
		double time, scale;
		std::string text;
	};
	std::string name, says;
	std::vector<std::pair<double, double>> points;
	double end = 0; // time
	std::vector<Mark> marks;
	void add(double time, double scale)
	{
		if (const double log2 = std::log2(scale); std::isfinite(log2))
			points.emplace_back(time, log2);
		end = std::max(end, time);
	}
};

// Coordinates of a chart of lines. Horizontal ones are percentages, so that the text keeps its size on a narrow screen.
struct Plane {
	double first = INFINITY, last = 0, low = INFINITY, high = -INFINITY;
	explicit Plane(const std::vector<Line> &lines)
	{
		for (const auto &line : lines) {
			last = std::max(last, line.end);
			for (const auto &[time, scale] : line.points)
				first = std::min(first, time), low = std::min(low, scale), high = std::max(high, scale);
		}
		last = std::max(last, first + 1);
		low = std::min(low, high - 1);
	}
	double x(double time) const { return 100 * (time - first) / (last - first); }
	double y(double scale) const { return 22 + (high - scale) / (high - low) * (chartHeight - 34); }
};

// Steps from point to point. Points whose distance no screen shows share one vertical line.
std::string drawLine(const Plane &plane, const Line &line, size_t number)
{
	constexpr double least = 100.0 / 320;
	const auto attributes = fmt::format("class=\"l l{}\"{}", number % 4, number < 4 ? "" : " stroke-dasharray=\"4 3\"");
	std::string body = "<g " + attributes + "><title>" + html(line.name) + "</title>";
	const auto draw = [&](double x, double y, double toX, double toY) {
		body += fmt::format("<line x1=\"{:.2f}%\" y1=\"{:.1f}\" x2=\"{:.2f}%\" y2=\"{:.1f}\"/>", x, y, toX, toY);
	};
	double x = plane.x(line.points.front().first), y = plane.y(line.points.front().second);
	for (size_t i = 1; i < line.points.size();) {
		const double at = plane.x(line.points[i].first);
		double top = y, bottom = y, after = y;
		for (; i < line.points.size() && plane.x(line.points[i].first) < at + least; i++) {
			after = plane.y(line.points[i].second);
			top = std::min(top, after), bottom = std::max(bottom, after);
		}
		if (at > x)
			draw(x, y, at, y);
		if (bottom > top)
			draw(at, top, at, bottom);
		x = at, y = after;
	}
	draw(x, y, 100, y);
	const size_t marks = std::min(line.marks.size(), maxMarks);
	for (size_t i = 0; i < marks; i++)
		body += fmt::format("<circle class=\"m\" cx=\"{:.2f}%\" cy=\"{:.1f}\" r=\"3\"><title>{}</title></circle>",
		                    plane.x(line.marks[i].time), plane.y(line.marks[i].scale), html(line.marks[i].text));
	return body + "</g>";
}

std::string drawLines(const char *id, const char *title, std::vector<Line> lines)
{
	std::erase_if(lines, [](const Line &line) { return line.points.empty(); });
	std::stable_sort(lines.begin(), lines.end(), [](auto &x, auto &y) { return x.points.size() > y.points.size(); });
	const size_t hidden = lines.size() - std::min(lines.size(), maxLines);
	lines.resize(lines.size() - hidden);
	const Plane plane(lines);
	std::string body, says, legend;
	for (size_t i = 0; i < lines.size(); i++) {
		constexpr int colours[] = {3, 1, 2, 4}; // numbers of the classes p: those that l0 to l3 use
		body += drawLine(plane, lines[i], i);
		says += fmt::format("{}{}: {}", i ? "; " : "", lines[i].name, lines[i].says);
		legend += fmt::format("<span class=\"key p{}\"></span>{}{}", colours[i % 4], html(lines[i].name),
		                      i < 4 ? "" : " (dashed)");
	}
	const double bottom = chartHeight + 16;
	body += fmt::format("<text x=\"4\" y=\"12\">2^{:g}</text><text x=\"4\" y=\"{}\">2^{:g}</text>"
	                    "<text x=\"4\" y=\"{}\">{}</text><text x=\"99.5%\" y=\"{}\" text-anchor=\"end\">{}</text>",
	                    plane.high, chartHeight - 2, plane.low, bottom, duration(plane.first), bottom,
	                    duration(plane.last));
	if (hidden)
		says += fmt::format("; {}", plural(hidden, "more curve"));
	return fmt::format(
	    "<svg class=\"lines\" role=\"img\" aria-labelledby=\"{0}-t {0}-d\"><title id=\"{0}-t\">{1}</title>"
	    "<desc id=\"{0}-d\">{2}</desc>{3}</svg>\n<p aria-hidden=\"true\">{4}</p>\n<p>{2}</p>\n",
	    id, title, html(fit(says, 600)), body, legend);
}

// cublasSgemm_v2 TN 512x512x64, A
std::string scaleName(const trace::RowInfo *row, const trace::ScalerInfo &event)
{
	if (!row)
		return fmt::format("unknown call, {}", event.operand);
	const auto transposes = row->shape.empty() ? fmt::format(" {}{}", row->transa, row->transb) : "";
	return fmt::format("{}{} {}, {}", row->entry, transposes, shapeOf(*row), event.operand);
}

std::string drawScaler(const Runs &runs)
{
	const auto starts = startsOf(runs);
	std::map<std::tuple<size_t, std::string, char>, Line> operands; // by run and site
	std::map<std::string, int> named;
	for (size_t run = 0; run < runs.size(); run++)
		for (const auto &event : runs[run].scaler) {
			auto &line = operands[{run, event.site, event.operand}];
			if (line.name.empty()) { // sites of several callers or regions can have the same name
				line.name =
				    scaleName(runs[run].row(event.row), event) + (runs.size() > 1 ? ", " + nameOf(runs[run]) : "");
				if (const int number = ++named[line.name]; number > 1)
					line.name += fmt::format(" ({})", number);
			}
			line.add(event.timeNs + double(starts[run]), event.scaleAfter);
		}
	std::vector<Line> lines;
	for (auto &[key, line] : operands) {
		if (line.points.empty())
			continue;
		line.says = fmt::format("{}, last 2^{:g}", plural(line.points.size(), "event"), line.points.back().second);
		lines.push_back(std::move(line));
	}
	if (lines.empty()) {
		const auto gaps = scalerGaps(runs);
		return gaps.empty() ? "<p>No scale was set.</p>\n"
		                    : "<p>" + html(fmt::format("{}", fmt::join(gaps, "; "))) + "</p>\n";
	}
	return drawLines("scaler-chart", "History of the scales", std::move(lines));
}

// With its heading; empty if no scaler was recorded.
std::string drawGradients(const Runs &runs)
{
	const auto starts = startsOf(runs);
	std::vector<Line> lines;
	for (const auto &gradient : gradientsOf(runs)) {
		const auto &info = *gradient.info;
		const double start = double(starts[gradient.run]);
		Line line;
		line.name = info.name + (runs.size() > 1 ? ", " + nameOf(runs[gradient.run]) : "");
		line.says =
		    fmt::format("{}, {} skipped, scale first {}, least {}, most {}, last {}", plural(info.steps, "step"),
		                gradient.areSkipsKnown() ? count(info.skipped) : "unknown", scaleText(info.scaleFirst),
		                scaleText(info.scaleLeast), scaleText(info.scaleMost), scaleText(info.scaleLast));
		for (const auto &[time, scale] : curveOf(gradient))
			line.add(time + start, scale);
		for (const auto &step : gradient.steps) {
			const double log2 = std::log2(step.event->scaleAfter);
			if (step.isSkipped() && std::isfinite(log2))
				line.marks.push_back(
				    {step.event->timeNs + start, log2,
				     fmt::format("{}: {}, {}", info.name, describeSkip(step), duration(step.event->timeNs))});
		}
		lines.push_back(std::move(line));
	}
	if (lines.empty())
		return {};
	const bool hasCurve = std::any_of(lines.begin(), lines.end(), [](auto &line) { return !line.points.empty(); });
	return "<h2>Gradient scalers of the program</h2>\n" +
	       (hasCurve ? drawLines("gradient-chart", "Scales of the gradient scalers", std::move(lines))
	                 : std::string("<p>The scales are unknown.</p>\n"));
}

void writeTable(std::FILE *out, const Sheet &sheet)
{
	if (sheet.size() == 0)
		return;
	fmt::print(out,
	           "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table "
	           "id=\"{1}\"><caption>{0}</caption><thead><tr>",
	           sheet.caption, sheet.name);
	const auto align = [](const Column &column) { return column.alignment == 'r' ? " class=\"r\"" : ""; };
	for (const auto &column : sheet.columns)
		fmt::print(out, "<th scope=\"col\" aria-sort=\"none\"{}><button type=\"button\">{}</button></th>",
		           align(column), column.heading);
	std::fputs("</tr></thead><tbody>\n", out);
	const size_t shown = std::min(sheet.size(), tableRows);
	for (size_t i = 0; i < shown; i++) {
		const Json row = sheet.row(i);
		std::fputs("<tr>", out);
		for (const auto &column : sheet.columns) {
			const auto &value = row[column.field];
			fmt::print(out, "<td{}{}>{}</td>", align(column),
			           column.alignment == 'r' && value.is_number()
			               ? fmt::format(" data-v=\"{:.6g}\"", value.get<double>())
			               : "",
			           html(column.show(row)));
		}
		std::fputs("</tr>\n", out);
	}
	std::fputs("</tbody></table></div>\n", out);
	if (const size_t more = sheet.size() - shown + sheet.hidden; more > 0)
		fmt::print(out, "<p>and {}; <code>--format csv</code> prints all</p>\n", plural(more, "more row"));
}

} // namespace

void writeHtml(std::FILE *out, const Runs &runs, const Account &account, const Lists &lists, const std::string &places)
{
	char *text = nullptr;
	size_t size = 0;
	std::FILE *memory = ::open_memstream(&text, &size);
	Terminal terminal(-1, Colour::never);
	terminal.width = pageWidth;
	writeSummary(memory, terminal, runs, account, places);
	std::fclose(memory);
	const std::unique_ptr<char, void (*)(void *)> summary(text, std::free);
	Timeline timeline;
	forEachItem(runs, "report", [&timeline](const Item &item) {
		if (item.kind == Item::call)
			timeline.add(item);
	});
	fmt::print(out, "{}<title>autoamp: {}</title></head><body><main>\n<h1>autoamp: {}</h1>\n", head,
	           html(runs.front().program), html(runs.front().program));
	for (const auto &line : warnings(account))
		fmt::print(out, "<p class=\"warning\" role=\"note\">{}</p>\n", html(line));
	fmt::print(out,
	           "<pre>{}</pre>\n<h2>Calls over time, by precision</h2>\n{}<h2>{}</h2>\n{}"
	           "<h2>History of the scales</h2>\n{}{}<h2>Lists</h2>\n",
	           html(std::string_view(text, size)), drawTimeline(timeline), titleOf(account.times),
	           drawOps(mergedRows(runs), account.times), drawScaler(runs), drawGradients(runs));
	if (lists.groups)
		writeTable(out, *lists.groups);
	for (const auto *sheet : {&lists.ops, &lists.reasons, &lists.kernels, &lists.sites, &lists.events, &lists.gradient,
	                          &lists.gradientEvents, &lists.observed, &lists.audits, &lists.losses})
		writeTable(out, *sheet);
	std::fputs(tail, out);
}

} // namespace autoamp::tool
