// The report as one HTML file without network access. Its numbers come from the rows and totals of the JSON report. Its
// size does not grow with the trace: the timeline has bins, and tables have a maximum number of rows.
#include "tools/autoamp/commands.h"
#include "tools/autoamp/ending.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/html_answers.h"
#include "tools/autoamp/html_charts.h"
#include "tools/autoamp/html_scaling.h"
#include "tools/autoamp/html_tables.h"
#include "tools/autoamp/remarks.h"
#include "tools/autoamp/timeline.h"

namespace autoamp::tool {

namespace page {

namespace {

constexpr size_t mostTimelines = 8; // of single processes

// exit 0 · pid 12 on vm · 2026-11-23T00:08:00Z · emulated device · level O1, dtype float16
std::string about(const Json &runs, const Runs &traces)
{
	const auto &run = runs.front();
	const auto &first = traces.front();
	std::vector<std::string> parts;
	if (runs.size() > 1)
		parts.push_back(plural(runs.size(), "process", "processes") + ", the first: " + html(endingOf(first)));
	else
		parts.push_back(html(endingOf(first)));
	parts.push_back(fmt::format("pid {}", run["pid"].dump()));
	if (const auto host = text(run, "host"); !host.empty())
		parts.back() += " on " + host;
	if (const auto started = text(run, "started"); !started.empty())
		parts.push_back(started);
	if (!run["device"].empty() && run["device"].front() != "")
		parts.push_back(html(run["device"].front().get<std::string>()));
	if (const auto blas = text(run["versions"], "blas"); !blas.empty())
		parts.push_back("CPU: " + blas);
	std::vector<std::string> settings;
	for (const std::string name : {"level", "dtype", "strategy"})
		if (const auto value = name == "dtype" ? dtypeOf(first) : text(run["config"], name.c_str()); !value.empty())
			settings.push_back(
			    fmt::format("{} {}{}", name, value, name == "level" ? html(meaningOfLevel(first, value)) : ""));
	if (!run["rules"].empty())
		settings.push_back(plural(run["rules"].size(), "rule"));
	parts.push_back(fmt::format("{}", fmt::join(settings, ", ")));
	if (const auto tf32 = whyTf32(traces); !tf32.empty())
		parts.back() += "; " + html(tf32);
	return fmt::format("<p class=\"meta\">{}</p>\n", fmt::join(parts, " · "));
}

// Warnings that belong before the numbers.
std::string notes(const Runs &runs, const Account &account)
{
	std::string body;
	for (const auto &line : warnings(account))
		body += note(line);
	if (hasLoss(account.loss))
		body += note("Data is missing: " + textOf(account.loss) + ".");
	for (const auto &run : runs)
		if (!run.diedInside.empty()) {
			body += note(fmt::format("{} ended inside {}.", nameOf(run), run.diedInside));
			break;
		}
	return body;
}

struct Timelines {
	Timeline all;
	std::vector<Timeline> single; // by run
};

Timelines timelinesOf(const Runs &runs)
{
	Timelines lines = {{}, std::vector<Timeline>(runs.size())};
	forEachItem(runs, "report", [&](const Item &item) {
		if (item.kind != Item::call)
			return;
		const size_t precision = precisionOf(item.row ? item.row->dtypeCompute : "");
		lines.all.add(item.startNs, precision);
		lines.single[item.run].add(item.startNs, precision);
	});
	lines.all.finish();
	for (auto &line : lines.single)
		line.finish();
	return lines;
}

std::string timelineSection(const Timelines &lines, const Runs &runs)
{
	auto body = section("timeline", "Timeline of calls");
	const Axis clock(lines.all.wholeNs(), 4, true);
	const auto chart =
	    lines.all.draw(runs.size() > 1 ? "All processes." : "Clock time since the start of the trace.", clock);
	if (chart.empty())
		return body + "<p>No single calls were recorded. <code>AUTOAMP_TRACE=ops</code> records them.</p></section>\n";
	body += legend(lines.all.sums()) + chart + lines.all.asTable();
	for (size_t i = 0; runs.size() > 1 && i < runs.size() && i < mostTimelines; i++)
		if (const auto single = lines.single[i].draw(html(nameOf(runs[i])) + ".", clock); !single.empty())
			body +=
			    fmt::format("<details><summary>Timeline of {}</summary>{}</details>\n", html(nameOf(runs[i])), single);
	return body + "</section>\n";
}

// Lines of the summary that have no table.
std::string remarksSection(const Runs &runs, const Account &account)
{
	std::string items;
	for (const auto &line : remarks(runs, account))
		items += "<li>" + html(line) + "</li>";
	return items.empty() ? "" : section("remarks", "Remarks") + "<ul class=\"plain\">" + items + "</ul></section>\n";
}

std::string contents(const std::string &body)
{
	static constexpr std::pair<const char *, const char *> sections[] = {{"reasons", "Reasons"},
	                                                                     {"processes", "Processes"},
	                                                                     {"timeline", "Timeline"},
	                                                                     {"scaler", "Scaling"},
	                                                                     {"gradient-scalers", "Gradient scalers"},
	                                                                     {"sigs", "Signatures"},
	                                                                     {"groups-section", "Groups"},
	                                                                     {"kernels", "Kernels"},
	                                                                     {"audit", "Errors"},
	                                                                     {"config", "Configuration"},
	                                                                     {"remarks", "Remarks"},
	                                                                     {"limits", "Losses and limits"}};
	std::string items;
	for (const auto &[id, name] : sections)
		if (body.find(fmt::format("<section id=\"{}\"", id)) != std::string::npos)
			items += fmt::format("<li><a href=\"#{}\">{}</a></li>", id, name);
	return "<nav aria-label=\"Sections\"><ul><li><a href=\"#result\">Result</a></li>" + items + "</ul></nav>\n";
}

std::string ifAny(const char *id, const char *title, const std::string &body)
{
	return body.empty() ? "" : section(id, title) + body + "</section>\n";
}

std::string result(const Account &account, const Work &work)
{
	return "<section class=\"first\" id=\"result\" aria-labelledby=\"h-result\"><h2 class=\"vh\" "
	       "id=\"h-result\">Result</h2>\n" +
	       answers(account) + workChart(account, work) + "</section>\n";
}

} // namespace

} // namespace page

void writeHtml(std::FILE *out, const Runs &runs, const Account &account, const Lists &lists, bool isSorted)
{
	using namespace page;
	Work work(account.gain.isMeasured());
	for (const auto &row : mergedRows(runs)) // all of them, whatever --top selects
		work.add(toJsonWithBest(OpsRow{0, &row}));
	work.finish();
	Json ofRuns = Json::array();
	for (size_t id = 0; id < runs.size(); id++)
		ofRuns.push_back(toJson(id, runs[id]));
	const auto lines = timelinesOf(runs);

	std::string body = result(account, work) + reasonsSection(lists.reasons, account.times, account.all.flops) +
	                   processesSection(runs, work.isMeasured, account.times);
	if (account.all.calls > 0)
		body += timelineSection(lines, runs);
	if (account.all.calls > 0 || !scalerGaps(runs).empty() || lists.gradient.size() > 0)
		body += scalingSection(runs, lists, lines.all.wholeNs());
	if (lists.groups)
		body += ifAny("groups-section", "Groups", table(*lists.groups));
	body += signaturesSection(lists.ops, work, account.times, isSorted) +
	        kernelsSection(lists.kernels, account.isEmulated) + ifAny("audit", "Measured errors", table(lists.audits)) +
	        configurationSection(ofRuns, runs.front()) + remarksSection(runs, account) + lossesSection(account, lists);
	const auto program = runs.front().program;
	const auto title = fmt::format("{}: {} ({}; autoamp report)", program, headline(account), account.gain.source());
	fmt::print(out,
	           "{}<a class=\"skip\" href=\"#result\">Skip to the result</a>\n<header><h1>autoamp report: "
	           "{}</h1>\n{}{}{}</header>\n"
	           "<main>\n{}</main>\n<footer>Made by autoamp {} from {}. This file contains all its data and makes no "
	           "network request.</footer>{}",
	           documentStart(title), html(program), about(ofRuns, runs), notes(runs, account), contents(body), body,
	           AUTOAMP_VERSION,
	           html(here(runs.front().path)) + (runs.size() > 1 ? fmt::format(" and {} more", runs.size() - 1) : ""),
	           documentEnd());
}

} // namespace autoamp::tool
