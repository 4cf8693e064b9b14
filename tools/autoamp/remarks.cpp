#include "tools/autoamp/remarks.h"

#include "src/policy/decision.h"
#include "tools/autoamp/text.h"
#include "tools/autoamp/traces.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace autoamp::tool {

std::string describeTime(const Account &account)
{
	const auto time = [&](const Sum &sum) { return sum.timeNs(account.times); };
	if (!(time(account.eligible) > 0))
		return {};
	std::vector<std::string> parts;
	for (const auto &[name, sum] : {std::pair("lowered", &account.lowered),
	                                {"raised", &account.eligibleRaised},
	                                {"kept", &account.eligibleKept},
	                                {"fallback", &account.fallback},
	                                {"observed", &account.eligibleObserved}})
		if (sum->calls > 0)
			parts.push_back(fmt::format("{} {}", name, duration(time(*sum))));
	return fmt::format("{} in fp32 products: {} ({})", headingOf(account.times), duration(time(account.eligible)),
	                   fmt::join(parts, ", "));
}

std::string describeShapes(const Account &account, size_t width)
{
	constexpr size_t most = 3;
	std::string text;
	for (size_t i = 0; i < account.heaviest.size() && i < most && account.heaviest[i].ns > 0; i++) {
		const auto &shape = account.heaviest[i];
		const auto more = fmt::format("{}{} {}", i ? ", " : "most time: ", shape.name,
		                              share(shape.ns, account.eligible.timeNs(account.times)));
		if (i > 0 && width > 0 && widthOf(text + more) > width)
			break;
		text += more;
	}
	return text;
}

std::string meaningOfLevel(const trace::Trace &run, const std::string &level)
{
	const auto lists = configOf(run, "lists");
	return level == "O0" ? " (changes no call)" : lists.empty() ? "" : fmt::format(" ({} lists)", lists);
}

std::string whyTf32(const std::vector<const trace::Trace *> &runs)
{
	std::set<std::string> causes;
	bool isPart = false, isAsked = false; // other calls ran in the configured type; unchanged ones in TF32
	for (const auto *run : runs)
		for (const auto &row : run->rows) {
			const auto *const tf32 = op::name(op::Dtype::tf32);
			isAsked |= row.calls > 0 && row.eligible && row.dtypeAsked == tf32 && row.dtypeCompute == tf32 &&
			           dtypeOf(*run) != tf32;
			if (row.calls == 0 || row.decision != policy::name(policy::Verdict::lowered))
				continue;
			if (row.dtypeCompute != tf32 || dtypeOf(*run) == tf32) {
				isPart = true;
				continue;
			}
			const auto reason = reasonOf(row.reason);
			causes.insert(reason && policy::isShortage(*reason) ? "no memory for conversions (" + row.reason + ")"
			              : reason == policy::Reason::rule      ? "a rule"
			              : configOf(*run, "strategy") == tf32  ? "strategy tf32"
			                                                    : "the cost model predicts it to be faster");
		}
	std::vector<std::string> parts;
	if (!causes.empty())
		parts.push_back(
		    fmt::format("{} ran in TF32: {}", isPart ? "some calls" : "lowered calls", fmt::join(causes, "; ")));
	if (isAsked)
		parts.push_back("unchanged calls ran in TF32: the program allows it");
	return fmt::format("{}", fmt::join(parts, "; "));
}

std::string whyTf32(const Runs &runs)
{
	std::vector<const trace::Trace *> all;
	for (const auto &run : runs)
		all.push_back(&run);
	return whyTf32(all);
}

std::string describeNotEmulated(const Account &account)
{
	if (account.notEmulated.empty())
		return {};
	uint64_t launches = 0;
	for (const auto &[kernel, number] : account.notEmulated)
		launches += number;
	return fmt::format("results may be wrong: the emulated device could not run {} ({}), the first: {}; "
	                   "tools/emulated/README.md explains how to add kernels",
	                   plural(account.notEmulated.size(), "kernel"),
	                   launches ? "launches: " + count(launches) : "lookups failed",
	                   shown(demangled(account.notEmulated.begin()->first)));
}

std::vector<std::string> shortages(const Account &account)
{
	std::vector<std::string> lines;
	for (const auto &sum : account.reasons) {
		const auto reason = reasonOf(sum.reason);
		if (reason && sum.decision == policy::name(policy::Verdict::lowered) && policy::isShortage(*reason))
			lines.push_back(fmt::format("not cast, lowered by another strategy: {} ({}){}{}", plural(sum.calls, "call"),
			                            sum.reason, *policy::advice(*reason) ? "; " : "", policy::advice(*reason)));
	}
	return lines;
}

std::vector<std::string> describeKept(const Account &account)
{
	std::string firstChanged;
	for (const auto &sum : account.scaler)
		if (sum.kind == "changed")
			firstChanged = sum.example;
	auto lines = weightWarnings(account.weights, account.memoryForWeights, firstChanged);
	lines.insert(lines.begin(), {describeWeights(account.weights), describe(account.weightsEstimate)});
	std::erase(lines, "");
	return lines;
}

std::vector<std::string> scalerWarnings(const Account &account)
{
	static constexpr struct {
		const char *kind, *meaning;
		bool isWorry;
	} kinds[] = {{"overflow", "float16 overflowed because scaling is off", true},
	             {"underflow", "float16 lost small elements that matter", true},
	             {"scale_range", "no power of two brings all values into float16's range", true},
	             {"nonfinite_input", "an operand contained Inf or NaN", true},
	             {"clamped", "finite values beyond the largest bfloat16 were replaced by it", true},
	             {"uncured", "float16 lost small elements, and could not be repaired; later calls avoid float16", true},
	             {"mended", "", false},
	             {"rescale", "", false}};
	std::string totals, worst, measured, rule;
	for (const auto &kind : kinds)
		for (const auto &sum : account.scaler) {
			if (sum.kind != kind.kind || sum.count == 0)
				continue;
			totals += fmt::format("{}{} {}", totals.empty() ? "scaling: " : ", ", count(sum.count), sum.kind);
			if (kind.isWorry && worst.empty())
				worst = fmt::format("{} at {} ({})", kind.meaning, plural(sum.sites.size(), "site"), sum.example);
			if (sum.excess >= 0 && sum.kind == "underflow")
				measured =
				    fmt::format("scaling: float16 error {:.2g}, {:.0f} rows and {:.0f} columns lost (worst sample)",
				                sum.excess, sum.lostRows, sum.lostColumns);
			if (sum.kind == "underflow")
				rule = fmt::format("scaling: try AUTOAMP_DTYPE=bfloat16, or in a file of AUTOAMP_CONFIG{}:\n{}",
				                   sum.rules.size() > 1
				                       ? fmt::format(" (with {} more: report --format json)", sum.rules.size() - 1)
				                       : "",
				                   *sum.rules.begin());
		}
	std::vector<std::string> lines;
	if (!totals.empty())
		lines.push_back(totals);
	if (!worst.empty())
		lines.push_back("scaling: " + worst);
	if (!measured.empty())
		lines.push_back(measured);
	if (!rule.empty())
		lines.push_back(rule);
	return lines;
}

std::string scalerGap(const trace::Trace &run)
{
	for (const auto &note : run.notes)
		if (note.kind == trace::noteOfScaler)
			return "scaler events were not recorded: " + note.text;
	if (std::all_of(run.rows.begin(), run.rows.end(), [](const auto &row) { return row.calls == 0; }))
		return "no call was recorded";
	// Events are copied from the device after each lowered call and at exit. The last events are missing if the program
	// did not exit normally.
	const bool isCast = std::any_of(run.rows.begin(), run.rows.end(), [](const auto &row) {
		return row.calls > 0 && !isOnCpu(row) && row.decision == policy::name(policy::Verdict::lowered) &&
		       row.strategy == policy::name(policy::Strategy::cast);
	});
	if (isCast && run.ended == "running")
		return "events may be missing: the program is still running";
	return isCast && !run.ended.starts_with("exit") ? "events of the last calls may be missing: no normal exit" : "";
}

std::vector<std::string> scalerGaps(const Runs &runs)
{
	std::vector<std::string> gaps;
	for (const auto &run : runs)
		if (auto gap = scalerGap(run); !gap.empty() && std::find(gaps.begin(), gaps.end(), gap) == gaps.end())
			gaps.push_back(std::move(gap));
	return gaps;
}

} // namespace autoamp::tool
