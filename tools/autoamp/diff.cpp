#include "tools/autoamp/diff.h"

#include "tools/autoamp/commands.h"
#include "tools/autoamp/comparison.h"
#include "tools/autoamp/diff_document.h"
#include "tools/autoamp/ending.h"
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"
#include "tools/autoamp/whatif.h"

#include <algorithm>
#include <unistd.h>

namespace autoamp::tool {

namespace {

Json filesOf(const Runs &runs)
{
	Json files = Json::array();
	for (const auto &run : runs)
		files.push_back(run.path);
	return files;
}

// "before: a.aat (traced)", "after: b.aat (traced, 2 processes)", and a line for each setting that differs.
std::vector<std::string> heading(const Comparison &comparison)
{
	std::vector<std::string> lines;
	const auto add = [&lines](const char *side, const std::string &place, const Runs &runs) {
		auto line = fmt::format("{}: {} ({}{}", side, quoted(here(place)), runs.front().program,
		                        runs.size() > 1 ? ", " + count(runs.size()) + " processes" : "");
		const auto early = std::find_if(runs.begin(), runs.end(),
		                                [](auto &run) { return run.ended != "exit" && run.ended != "exit 0"; });
		lines.push_back(line + (early == runs.end() ? ")" : ", " + endingOf(*early) + ")"));
	};
	add("before", comparison.options.before, comparison.before);
	add("after", comparison.options.after, comparison.after);
	const auto orDash = [](const std::string &value) { return value.empty() ? "-" : value; };
	for (const auto &each : comparison.settings)
		lines.push_back(fmt::format("{}: {} > {}", each.name, orDash(each.before), orDash(each.after)));
	if (comparison.settings.empty())
		lines.push_back("settings, versions and devices are identical");
	return lines;
}

Sheet sheetOf(const Comparison &comparison)
{
	const bool isModel = comparison.isEmulated, isMeasured = comparison.isMeasured;
	const auto time = [&](const char *heading, const char *side) {
		return durations(heading, fmt::format("{}{}",
		                                      isModel      ? "model_ns"
		                                      : isMeasured ? "kernel_ns"
		                                                   : "host_ns",
		                                      side)
		                              .c_str());
	};
	const char *ratio = isModel ? "model_ratio" : "ratio";
	const std::vector<Column> columns = {texts("entry point", "entry"),
	                                     shapes(),
	                                     time(isModel      ? "before (model)"
	                                          : isMeasured ? "before (kernels)"
	                                                       : "before (host)",
	                                          "_before"),
	                                     time("after", "_after"),
	                                     {"ratio", ratio, 'r',
	                                      [ratio](const Json &row) {
		                                      return row[ratio].is_null()
		                                                 ? "-"
		                                                 : fmt::format("{:.2f}", row[ratio].get<double>());
	                                      }},
	                                     counts("calls before", "calls_before"),
	                                     counts("after", "calls_after"),
	                                     texts("precision before", "way_before"),
	                                     texts("precision after", "way_after")};
	return Sheet::of(
	    "signatures", "Calls of both runs by signature", comparison.pairs,
	    [](const Pair &pair) { return toJson(pair); }, columns);
}

void writeJson(const Comparison &comparison, const Sheet &sheet)
{
	Json settings = Json::array();
	for (const auto &each : comparison.settings)
		settings.push_back({{"name", each.name}, {"before", orNull(each.before)}, {"after", orNull(each.after)}});
	const Json head = {{"schema", "autoamp.diff/1"},
	                   {"files_before", filesOf(comparison.before)},
	                   {"files_after", filesOf(comparison.after)},
	                   {"settings", settings},
	                   {"common", comparison.common},
	                   {"emulated", comparison.isEmulated},
	                   {"time", comparison.isMeasured ? "kernel_ns" : "host_ns"},
	                   {"slower_percent", orNull(comparison.slowerPercent)},
	                   {"changed", comparison.changed},
	                   {"max_error", orNull(comparison.audit.orUnknown(comparison.audit.most))}};
	auto text = dump(head);
	text.back() = ',';
	fmt::print("{}\n", text);
	tool::writeJson(stdout, sheet);
	fmt::print("}}\n");
}

void writeText(const Comparison &comparison, const Sheet &sheet)
{
	if (comparison.isEmulated)
		fmt::print("{}\n", emulatedLine);
	const Terminal terminal(STDOUT_FILENO, comparison.options.colour);
	for (const auto &line : heading(comparison))
		fmt::print("{}\n", wrap(line, terminal.width, 2));
	writeTable(stdout, terminal, sheet);
	if (sheet.hidden > 0)
		fmt::print("and {}\n", plural(sheet.hidden, "more row"));
	auto end = fmt::format("{}, {} with another precision or reason", plural(comparison.pairs.size(), "signature"),
	                       count(comparison.changed));
	const double slower = comparison.isEmulated ? comparison.modelSlowerPercent : comparison.slowerPercent;
	const char *source = comparison.isEmulated   ? "model, nothing was timed"
	                     : comparison.isMeasured ? "device time"
	                                             : "host time";
	if (!std::isnan(slower))
		end += fmt::format("; ratio: time per call, after / before; calls in both runs took {:.2f} times as long "
		                   "({:+.1f} %, {})",
		                   1 + slower / 100, slower, source);
	fmt::print("{}\n", wrap(end, terminal.width, 2));
}

// Ends the command if a demanded comparison fails or was not possible.
void check(const Comparison &comparison)
{
	const auto &options = comparison.options;
	const auto gates = gatesOf(comparison);
	for (const auto &gate : gates)
		if (comparison.isEmulated && options.slower && gate.status == Status::wrong)
			fail(gate.status, "diff: {}", gate.failure);
	if (comparison.common == 0)
		fail(Status::failed, "diff: {} and {} have no signature in common", quoted(here(options.before)),
		     quoted(here(options.after)));
	for (const auto &gate : gates)
		if (gate.status != Status::done)
			fail(gate.status, "diff: {}", gate.failure);
}

} // namespace

Status diff(const DiffOptions &options, const policy::Options &configuration, std::span<const char *const> entries)
{
	if (options.all && options.format != "md" && options.format != "html")
		fail(Status::wrong, "diff: --all applies to --format md and html; the other formats print all signatures");
	Status status = Status::done;
	Runs before = gather({options.before}, configuration, status),
	     after = gather({options.after}, configuration, status);
	if (before.empty() || after.empty())
		return Status::wrong;
	for (auto *const runs : {&before, &after})
		findBest(*runs, entries); // a call without its kept copy counts with a conversion, as in a report
	const Comparison comparison(options, before, after);
	auto sheet = sheetOf(comparison);
	sheet.select(options.selection);
	if (options.format == "json")
		writeJson(comparison, sheet);
	else if (options.format == "csv")
		writeCsv(stdout, sheet);
	else if (options.format == "jsonl")
		writeJsonLines(stdout, sheet);
	else if (options.format == "md")
		writeDiffMarkdown(stdout, comparison, sheet);
	else if (options.format == "html")
		writeDiffHtml(stdout, comparison, sheet);
	else
		writeText(comparison, sheet);
	check(comparison);
	return status;
}

} // namespace autoamp::tool
