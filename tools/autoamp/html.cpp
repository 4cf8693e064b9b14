// The report as one HTML file: no network access, charts as inline SVG, sortable tables. Its size does not grow with
// the trace: the timeline is drawn from bins, and tables have a maximum number of rows.
#include "tools/autoamp/escape.h"
#include "tools/autoamp/remarks.h"
#include "tools/autoamp/timeline.h"
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"

#include <array>
#include <map>

namespace autoamp::tool {

namespace {

constexpr size_t pageWidth = 120, tableRows = 1500, maxBins = 480, ops = 12, lines = 8;
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
svg{width:100%;height:auto;background:var(--soft)}svg text{fill:var(--text);font-size:12px}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}caption{text-align:left;font-weight:600;padding:.4rem 0}
th,td{border-bottom:1px solid var(--line);padding:.2rem .5rem;text-align:left;white-space:nowrap}.r{text-align:right;font-variant-numeric:tabular-nums}
th button{all:unset;cursor:pointer;font-weight:600}th button:focus-visible{outline:2px solid var(--p3)}
th[aria-sort=ascending] button::after{content:" \25B2"}th[aria-sort=descending] button::after{content:" \25BC"}
.key{display:inline-block;width:.9em;height:.9em;margin:0 .3em 0 1em}.hidden{position:absolute;clip-path:inset(50%);width:1px;height:1px}
.p0{fill:var(--p0);background:var(--p0)}.p1{fill:var(--p1);background:var(--p1)}.p2{fill:var(--p2);background:var(--p2)}.p3{fill:var(--p3);background:var(--p3)}.p4{fill:var(--p4);background:var(--p4)}
.l{fill:none;stroke-width:1.5}.l0{stroke:var(--p3)}.l1{stroke:var(--p1)}.l2{stroke:var(--p2)}.l3{stroke:var(--p4)}
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

const char *titleOf(bool isMeasured)
{
	return isMeasured ? "Time in kernels by op and precision" : "Time by op and precision, by the cost model";
}

std::string drawOps(const std::vector<trace::RowInfo> &rows, bool isMeasured)
{
	std::map<std::string, ByPrecision> times;
	ByPrecision sums = {};
	for (const auto &row : rows) {
		Sum sum;
		sum.add(row);
		times[row.op.empty() ? row.entry : row.op][precisionOf(&row)] += sum.timeNs(isMeasured);
		sums[precisionOf(&row)] += sum.timeNs(isMeasured);
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
	return chart("ops-chart", titleOf(isMeasured), says, 24 * double(sorted.size()) + 6, body) + legend(sums);
}

std::string drawScaler(const Runs &runs)
{
	const auto starts = startsOf(runs);
	std::map<std::string, std::vector<std::pair<double, double>>> sites; // time, log2 of the scale
	double last = 1, low = INFINITY, high = -INFINITY;
	for (size_t run = 0; run < runs.size(); run++)
		for (const auto &event : runs[run].scaler) {
			const double scale = std::log2(event.scaleAfter);
			if (!std::isfinite(scale))
				continue;
			const double time = event.timeNs + double(starts[run]);
			sites[fmt::format("{} {}{}", event.site, event.operand, runs.size() > 1 ? ", " + nameOf(runs[run]) : "")]
			    .emplace_back(time, scale);
			last = std::max(last, time), low = std::min(low, scale), high = std::max(high, scale);
		}
	if (sites.empty()) {
		const auto gaps = scalerGaps(runs);
		return gaps.empty() ? "<p>No scale was set.</p>\n"
		                    : "<p>" + html(fmt::format("{}", fmt::join(gaps, "; "))) + "</p>\n";
	}
	std::vector<std::pair<std::string, std::vector<std::pair<double, double>>>> sorted(sites.begin(), sites.end());
	std::stable_sort(sorted.begin(), sorted.end(), [](auto &x, auto &y) { return x.second.size() > y.second.size(); });
	sorted.resize(std::min(sorted.size(), lines));
	const double range = std::max(1.0, high - low);
	const auto y = [&](double scale) { return 10 + (high - scale) / range * (chartHeight - 20); };
	std::string body, says;
	for (size_t i = 0; i < sorted.size(); i++) {
		const auto &[name, points] = sorted[i];
		std::string path;
		for (const auto &[time, scale] : points)
			path += path.empty() ? fmt::format("M{:.1f} {:.1f}", time / last * chartWidth, y(scale))
			                     : fmt::format("H{:.1f}V{:.1f}", time / last * chartWidth, y(scale));
		body += fmt::format("<path class=\"l l{}\"{} d=\"{}H{}\"><title>{}</title></path>", i % 4,
		                    i < 4 ? "" : " stroke-dasharray=\"4 3\"", path, chartWidth, html(name));
		says += fmt::format("{}site {}: {}, last 2^{:g}", i ? ", " : "", name, plural(points.size(), "event"),
		                    points.back().second);
	}
	body += fmt::format("<text x=\"4\" y=\"14\">2^{:g}</text><text x=\"4\" y=\"{}\">2^{:g}</text>", high,
	                    chartHeight - 4, high - range);
	return chart("scaler-chart", "History of the scales", says, chartHeight, body) + "<p>" + html(fit(says, 600)) +
	       "</p>\n";
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
	           "<h2>History of the scales</h2>\n{}<h2>Lists</h2>\n",
	           html(std::string_view(text, size)), drawTimeline(timeline), titleOf(account.isMeasured),
	           drawOps(mergedRows(runs), account.isMeasured), drawScaler(runs));
	if (lists.groups)
		writeTable(out, *lists.groups);
	for (const auto *sheet : {&lists.ops, &lists.reasons, &lists.kernels, &lists.sites, &lists.events, &lists.gradient,
	                          &lists.gradientEvents, &lists.observed, &lists.losses})
		writeTable(out, *sheet);
	std::fputs(tail, out);
}

} // namespace autoamp::tool
