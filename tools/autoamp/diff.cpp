#include "tools/autoamp/diff.h"

#include "tools/autoamp/commands.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"

#include <map>
#include <set>
#include <unistd.h>

namespace autoamp::tool {

namespace {

// The calls of one signature in one of the runs.
struct Side {
	uint64_t calls = 0;
	double hostNs = 0, kernelNs = NAN;
	std::map<std::string, uint64_t> ways; // calls by "lowered float16 (white_list)"

	double timeNs(bool isMeasured) const { return isMeasured ? kernelNs : hostNs; }
	std::string way() const
	{
		const auto most =
		    std::max_element(ways.begin(), ways.end(), [](auto &x, auto &y) { return x.second < y.second; });
		return most == ways.end() ? "" : most->first + (ways.size() > 1 ? fmt::format(" +{}", ways.size() - 1) : "");
	}
};

struct Pair {
	trace::RowInfo row = {};
	Side sides[2];
	double ratio = NAN; // time per call, after divided by before
	bool isWayChanged() const { return sides[0].calls && sides[1].calls && sides[0].way() != sides[1].way(); }
};

Json describe(const Pair &pair)
{
	const auto &row = pair.row;
	Json object = {{"entry", orNull(row.entry)},
	               {"op", orNull(row.op)},
	               {"shape", shapeOf(row)},
	               {"transa", std::string(1, row.transa)},
	               {"transb", std::string(1, row.transb)},
	               {"dtype_in", orNull(row.dtypeIn)}};
	static constexpr const char *names[] = {"_before", "_after"};
	const auto add = [&](const char *field, auto value) {
		for (size_t side = 0; side < 2; side++)
			object[field + std::string(names[side])] = pair.sides[side].calls ? Json(value(pair.sides[side])) : Json();
	};
	add("calls", [](const Side &side) { return side.calls; });
	add("host_ns", [](const Side &side) { return nanoseconds(side.hostNs); });
	add("kernel_ns", [](const Side &side) { return nanoseconds(side.kernelNs); });
	add("way", [](const Side &side) { return side.way(); });
	add("max_error", [](const Side &) { return Json(); }); // traces contain no measured errors
	object["ratio"] = orNull(pair.ratio);
	object["changed"] = pair.isWayChanged();
	return object;
}

// The values of each setting in the processes of one side.
using Values = std::map<std::string, std::set<std::string>>;

// Settings of the whole run that may explain a difference. The name of the trace is not among them.
Values settingsOf(const Runs &runs)
{
	Values values;
	for (const auto &run : runs) {
		for (const auto &property : run.config)
			if (property.name != policy::optionTable()[static_cast<size_t>(policy::Option::traceFile)].name)
				values[configName(property.name)].insert(property.value);
		for (const auto &property : run.rules)
			values["rule " + property.name].insert(property.value);
		for (const auto &property : run.versions)
			values[property.name + " version"].insert(property.value);
		for (size_t ordinal = 0; ordinal < run.devices.size(); ordinal++)
			values[fmt::format("device {}", ordinal)].insert(run.devices[ordinal]);
	}
	return values;
}

struct Difference {
	std::string name, before, after;
};

std::vector<Difference> differences(const Runs &before, const Runs &after)
{
	auto ofBefore = settingsOf(before), ofAfter = settingsOf(after);
	const auto textOf = [](const std::set<std::string> &values) { return fmt::format("{}", fmt::join(values, " | ")); };
	for (const auto &[name, values] : ofAfter)
		ofBefore[name];
	std::vector<Difference> list;
	for (const auto &[name, values] : ofBefore)
		if (textOf(values) != textOf(ofAfter[name]))
			list.push_back({name, textOf(values), textOf(ofAfter[name])});
	return list;
}

Json filesOf(const Runs &runs)
{
	Json files = Json::array();
	for (const auto &run : runs)
		files.push_back(run.path);
	return files;
}

// "before: a.aat (traced)", "after: b.aat (traced, 2 processes)", and a line for each setting that differs.
std::vector<std::string> heading(const Runs (&runs)[2], const DiffOptions &options, const std::vector<Difference> &list)
{
	std::vector<std::string> lines;
	for (size_t side = 0; side < 2; side++)
		lines.push_back(fmt::format("{}: {} ({}{})", side ? "after" : "before",
		                            quoted(here(side ? options.after : options.before)), runs[side].front().program,
		                            runs[side].size() > 1 ? ", " + count(runs[side].size()) + " processes" : ""));
	const auto orDash = [](const std::string &value) { return value.empty() ? "-" : value; };
	for (const auto &each : list)
		lines.push_back(fmt::format("{}: {} > {}", each.name, orDash(each.before), orDash(each.after)));
	if (list.empty())
		lines.push_back("settings, versions and devices are identical");
	return lines;
}

} // namespace

Status diff(const DiffOptions &options, const policy::Options &configuration)
{
	Status status = Status::done;
	const Runs runs[] = {gather({options.before}, configuration, status),
	                     gather({options.after}, configuration, status)};
	if (runs[0].empty() || runs[1].empty())
		return Status::wrong;
	std::map<std::string, Pair> pairs;
	bool isEmulated = false, isMeasured = true;
	for (size_t side = 0; side < 2; side++) {
		const auto account = add(runs[side]);
		isEmulated |= account.isEmulated;
		isMeasured &= account.isMeasured;
		for (const auto &run : runs[side])
			for (const auto &row : run.rows) {
				if (row.calls == 0)
					continue;
				auto &pair =
				    pairs[fmt::format("{}|{}|{}{}|{}", row.entry, shapeOf(row), row.transa, row.transb, row.dtypeIn)];
				pair.row = row;
				auto &sum = pair.sides[side];
				sum.calls += row.calls, sum.hostNs += row.hostNs;
				if (const double ns = row.kernelNs + (std::isnan(row.castNs) ? 0 : row.castNs); !std::isnan(ns))
					sum.kernelNs = std::isnan(sum.kernelNs) ? ns : sum.kernelNs + ns;
				sum.ways[fmt::format("{} {} ({})", row.decision, row.dtypeCompute, row.reason)] += row.calls;
			}
	}

	// Time of the calls of the second run, and their time if each call took as long as in the first run.
	double took = 0, wouldTake = 0;
	size_t common = 0;
	std::vector<Pair> list;
	for (auto &[key, pair] : pairs) {
		const auto &[before, after] = pair.sides;
		const double one = before.timeNs(isMeasured) / double(before.calls),
		             other = after.timeNs(isMeasured) / double(after.calls);
		if (!isEmulated && before.calls && after.calls && one > 0) {
			pair.ratio = other / one;
			took += other * double(after.calls), wouldTake += one * double(after.calls);
		}
		common += before.calls > 0 && after.calls > 0;
		list.push_back(std::move(pair));
	}
	const auto weight = [&](const Pair &pair) { // flops where times are not real
		const auto &[before, after] = pair.sides;
		return isEmulated ? pair.row.flops() / double(pair.row.calls) * double(std::max(before.calls, after.calls))
		                  : std::max(before.timeNs(isMeasured), after.timeNs(isMeasured));
	};
	std::stable_sort(list.begin(), list.end(), [&](auto &x, auto &y) { return weight(x) > weight(y); });
	const size_t changed =
	    static_cast<size_t>(std::count_if(list.begin(), list.end(), [](auto &pair) { return pair.isWayChanged(); }));

	const auto time = [&](const char *heading, const char *side) {
		return durations(heading, fmt::format("{}{}", isMeasured ? "kernel_ns" : "host_ns", side).c_str());
	};
	std::vector<Column> columns = {counts("calls", "calls_before"), counts("then", "calls_after")};
	if (!isEmulated)
		columns.insert(columns.end(),
		               {time(isMeasured ? "kernels" : "host", "_before"),
		                time("then", "_after"),
		                {"ratio", "ratio", 'r', [](const Json &row) {
			                 return row["ratio"].is_null() ? "-" : fmt::format("{:.2f}", row["ratio"].get<double>());
		                 }}});
	columns.insert(columns.end(), {texts("entry", "entry"),
	                               {"m x n x k", "shape", 'l',
	                                [](const Json &row) {
		                                return fmt::format("{}{} {}", row["transa"].get<std::string>(),
		                                                   row["transb"].get<std::string>(),
		                                                   row["shape"].get<std::string>());
	                                }},
	                               texts("was", "way_before"),
	                               texts("is", "way_after")});
	auto sheet = Sheet::of(
	    "signatures", "Calls of both runs by signature", std::move(list),
	    [](const Pair &pair) { return describe(pair); }, columns);
	const size_t all = sheet.size();
	sheet.select(options.selection);

	const double percent = wouldTake > 0 ? 100 * (took / wouldTake - 1) : NAN;
	const auto &format = options.format;
	const auto changes = differences(runs[0], runs[1]);
	if (format == "json") {
		Json settings = Json::array();
		for (const auto &each : changes)
			settings.push_back({{"name", each.name}, {"before", orNull(each.before)}, {"after", orNull(each.after)}});
		const Json head = {{"schema", "autoamp.diff/1"},
		                   {"files_before", filesOf(runs[0])},
		                   {"files_after", filesOf(runs[1])},
		                   {"settings", settings},
		                   {"common", common},
		                   {"emulated", isEmulated},
		                   {"time", isMeasured ? "kernel_ns" : "host_ns"},
		                   {"slower_percent", orNull(percent)},
		                   {"changed", changed},
		                   {"max_error", nullptr}};
		auto text = dump(head);
		text.back() = ',';
		fmt::print("{}\n", text);
		writeJson(stdout, sheet);
		fmt::print("}}\n");
	} else if (format == "csv" || format == "jsonl") {
		format == "csv" ? writeCsv(stdout, sheet) : writeJsonLines(stdout, sheet);
	} else {
		const char *gap = format == "md" ? "\n" : "";
		fmt::print("{}", isEmulated ? fmt::format("{}\n{}", emulatedLine, gap) : "");
		for (const auto &line : heading(runs, options, changes))
			fmt::print("{}\n{}", format == "md" ? markdown(line) : shown(line), gap);
		format == "md" ? writeMarkdown(stdout, sheet)
		               : writeTable(stdout, Terminal(STDOUT_FILENO, options.colour), sheet);
		if (sheet.hidden > 0)
			fmt::print("{}and {}\n", gap, plural(sheet.hidden, "more row"));
		fmt::print("{}{}, {} with another precision or reason", gap, plural(all, "signature"), count(changed));
		fmt::print("{}\n", std::isnan(percent) ? ""
		                                       : fmt::format("; calls in both runs: {:+.1f} % {} time", percent,
		                                                     isMeasured ? "device" : "host"));
	}
	if (options.slower && isEmulated)
		fail(Status::wrong, "diff: --fail-if-slower: times of emulated runs cannot be compared");
	if (common == 0)
		fail(Status::failed, "diff: {} and {} have no signature in common", quoted(here(options.before)),
		     quoted(here(options.after)));
	if (options.slower && std::isnan(percent))
		fail(Status::failed, "diff: --fail-if-slower: no common signature has a time");
	if (options.slower && percent > *options.slower)
		fail(Status::failed, "diff: {:.1f} % slower, more than {} %", percent, *options.slower);
	if (options.error) // traces contain no measured errors, and an unknown error must not pass the check
		fail(Status::wrong, "diff: --fail-if-error: traces contain no measured errors");
	return status;
}

} // namespace autoamp::tool
