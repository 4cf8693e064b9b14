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
	trace::AuditInfo audit;
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

Json toJson(const Pair &pair)
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
	add("max_error", [](const Side &side) { return orNull(side.audit.orUnknown(side.audit.most)); });
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

// Two runs, signature by signature.
struct Comparison {
	const Runs &before, &after;
	std::vector<Pair> pairs;
	std::vector<Difference> settings;
	bool isEmulated = false, isMeasured = true; // times are not real; all kernels were timed
	size_t common = 0, changed = 0;             // signatures of both runs; those with another precision or reason
	double slowerPercent = NAN;                 // calls of both runs; NaN: none has a time
	trace::AuditInfo audit;                     // those of the second run

	Comparison(const Runs &before, const Runs &after)
	    : before(before), after(after), settings(differences(before, after)), audit(auditSum(after).all)
	{
		std::map<std::string, Pair> bySignature;
		for (size_t side = 0; side < 2; side++) {
			const auto account = add(side ? after : before);
			isEmulated |= account.isEmulated;
			isMeasured &= account.times == Times::kernels;
			for (const auto &run : side ? after : before)
				for (const auto &row : run.rows)
					if (row.calls > 0)
						count(row, side, bySignature);
		}
		rate(bySignature);
		for (auto &[signature, pair] : bySignature)
			pairs.push_back(std::move(pair));
		const auto isHeavier = [this](const Pair &x, const Pair &y) { return weightOf(x) > weightOf(y); };
		std::stable_sort(pairs.begin(), pairs.end(), isHeavier);
		const auto isChanged = [](const Pair &pair) { return pair.isWayChanged(); };
		changed = static_cast<size_t>(std::count_if(pairs.begin(), pairs.end(), isChanged));
	}

private:
	static void count(const trace::RowInfo &row, size_t side, std::map<std::string, Pair> &pairs)
	{
		auto &pair = pairs[fmt::format("{}|{}|{}{}|{}", row.entry, shapeOf(row), row.transa, row.transb, row.dtypeIn)];
		pair.row = row;
		auto &sum = pair.sides[side];
		sum.calls += row.calls, sum.hostNs += row.hostNs;
		sum.audit.add(row.audit);
		if (const double ns = row.kernelNs + (std::isnan(row.castNs) ? 0 : row.castNs); !std::isnan(ns))
			sum.kernelNs = std::isnan(sum.kernelNs) ? ns : sum.kernelNs + ns;
		sum.ways[fmt::format("{} {} ({})", row.decision, row.dtypeCompute, row.reason)] += row.calls;
	}

	// Sets the ratios, and compares the time of the second run's calls with the time that they take if each takes as
	// long as in the first run.
	void rate(std::map<std::string, Pair> &bySignature)
	{
		double took = 0, wouldTake = 0;
		for (auto &[signature, pair] : bySignature) {
			const auto &[first, second] = pair.sides;
			const double one = first.timeNs(isMeasured) / double(first.calls),
			             other = second.timeNs(isMeasured) / double(second.calls);
			const bool isCommon = first.calls > 0 && second.calls > 0;
			common += isCommon;
			if (!isEmulated && isCommon && one > 0) {
				pair.ratio = other / one;
				took += other * double(second.calls), wouldTake += one * double(second.calls);
			}
		}
		if (wouldTake > 0)
			slowerPercent = 100 * (took / wouldTake - 1);
	}

	double weightOf(const Pair &pair) const // flops where times are not real
	{
		const auto &[first, second] = pair.sides;
		return isEmulated ? pair.row.flops() / double(pair.row.calls) * double(std::max(first.calls, second.calls))
		                  : std::max(first.timeNs(isMeasured), second.timeNs(isMeasured));
	}
};

// "before: a.aat (traced)", "after: b.aat (traced, 2 processes)", and a line for each setting that differs.
std::vector<std::string> heading(const Comparison &comparison, const DiffOptions &options)
{
	std::vector<std::string> lines;
	const auto add = [&lines](const char *side, const std::string &place, const Runs &runs) {
		lines.push_back(fmt::format("{}: {} ({}{})", side, quoted(here(place)), runs.front().program,
		                            runs.size() > 1 ? ", " + count(runs.size()) + " processes" : ""));
	};
	add("before", options.before, comparison.before);
	add("after", options.after, comparison.after);
	const auto orDash = [](const std::string &value) { return value.empty() ? "-" : value; };
	for (const auto &each : comparison.settings)
		lines.push_back(fmt::format("{}: {} > {}", each.name, orDash(each.before), orDash(each.after)));
	if (comparison.settings.empty())
		lines.push_back("settings, versions and devices are identical");
	return lines;
}

Sheet sheetOf(const Comparison &comparison)
{
	const bool isMeasured = comparison.isMeasured;
	const auto time = [&](const char *heading, const char *side) {
		return durations(heading, fmt::format("{}{}", isMeasured ? "kernel_ns" : "host_ns", side).c_str());
	};
	std::vector<Column> columns = {counts("calls", "calls_before"), counts("then", "calls_after")};
	if (!comparison.isEmulated)
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

void writeText(const Comparison &comparison, const Sheet &sheet, const DiffOptions &options)
{
	const bool isMarkdown = options.format == "md";
	const char *const gap = isMarkdown ? "\n" : "";
	fmt::print("{}", comparison.isEmulated ? fmt::format("{}\n{}", emulatedLine, gap) : "");
	for (const auto &line : heading(comparison, options))
		fmt::print("{}\n{}", isMarkdown ? markdown(line) : shown(line), gap);
	isMarkdown ? writeMarkdown(stdout, sheet) : writeTable(stdout, Terminal(STDOUT_FILENO, options.colour), sheet);
	if (sheet.hidden > 0)
		fmt::print("{}and {}\n", gap, plural(sheet.hidden, "more row"));
	fmt::print("{}{}, {} with another precision or reason", gap, plural(comparison.pairs.size(), "signature"),
	           count(comparison.changed));
	fmt::print("{}\n", std::isnan(comparison.slowerPercent)
	                       ? ""
	                       : fmt::format("; calls in both runs: {:+.1f} % {} time", comparison.slowerPercent,
	                                     comparison.isMeasured ? "device" : "host"));
}

// Ends the command if a demanded comparison fails or was not possible.
void check(const Comparison &comparison, const DiffOptions &options)
{
	if (options.slower && comparison.isEmulated)
		fail(Status::wrong, "diff: --fail-if-slower: times of emulated runs cannot be compared");
	if (comparison.common == 0)
		fail(Status::failed, "diff: {} and {} have no signature in common", quoted(here(options.before)),
		     quoted(here(options.after)));
	if (options.slower && std::isnan(comparison.slowerPercent))
		fail(Status::failed, "diff: --fail-if-slower: no common signature has a time");
	if (options.slower && comparison.slowerPercent > *options.slower)
		fail(Status::failed, "diff: {:.1f} % slower, more than {} %", comparison.slowerPercent, *options.slower);
	const auto &audit = comparison.audit;
	if (options.error && audit.overflowed > 0)
		fail(Status::failed, "diff: {} with an Inf or NaN that fp32 does not have", plural(audit.overflowed, "result"));
	if (options.error && audit.measured() == 0) // an unknown error must not pass the check
		fail(Status::wrong, "diff: --fail-if-error: traces contain no measured errors");
	if (options.error && audit.most > *options.error)
		fail(Status::failed, "diff: error {:.2e}, more than {}", audit.most, *options.error);
}

} // namespace

Status diff(const DiffOptions &options, const policy::Options &configuration)
{
	Status status = Status::done;
	const Runs before = gather({options.before}, configuration, status),
	           after = gather({options.after}, configuration, status);
	if (before.empty() || after.empty())
		return Status::wrong;
	const Comparison comparison(before, after);
	auto sheet = sheetOf(comparison);
	sheet.select(options.selection);
	if (options.format == "json")
		writeJson(comparison, sheet);
	else if (options.format == "csv")
		writeCsv(stdout, sheet);
	else if (options.format == "jsonl")
		writeJsonLines(stdout, sheet);
	else
		writeText(comparison, sheet, options);
	check(comparison, options);
	return status;
}

} // namespace autoamp::tool
