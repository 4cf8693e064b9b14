// The report as text. The summary fits 80x24 and answers: what ran lower, where fp32 time goes, what it gained, what
// was kept and why, what the scaler did, and what next.
#include "tools/autoamp/ending.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/recorded.h"
#include "tools/autoamp/views.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <sstream>

namespace autoamp::tool {

namespace {

constexpr size_t summaryLines = 22; // 24 less the command and the next prompt
constexpr size_t usualWidth = 80;

std::string join(const std::vector<std::string> &words, const char *separator)
{
	return fmt::format("{}", fmt::join(words, separator));
}

std::string commandOf(const trace::Trace &run)
{
	if (run.command.empty())
		return run.program;
	auto text = quoted(here(run.command.front()));
	for (size_t i = 1; i < run.command.size(); i++)
		text += " " + quoted(run.command[i]);
	return text;
}

// Under which configuration, on which device.
std::string settingsOf(const trace::Trace &run)
{
	std::vector<std::string> parts;
	for (const char *name : {"level", "dtype", "strategy", "scaling"})
		if (const auto value = configOf(run, name);
		    !value.empty() && (name != std::string("scaling") || value == "off"))
			parts.push_back(fmt::format("{} {}", name, value));
	auto line = join(parts, ", ");
	if (!run.devices.empty())
		line += (line.empty() ? "on " : "; on ") + run.devices.front();
	return line;
}

// Runs grouped by a text, such as their settings; in the order of the runs.
using Alike = std::vector<std::pair<std::string, std::vector<const trace::Trace *>>>;
template <class TextOf>
Alike alike(const Runs &runs, TextOf textOf)
{
	Alike groups;
	std::map<std::string, size_t> places;
	for (const auto &run : runs) {
		auto text = textOf(run);
		const auto [place, isNew] = places.emplace(text, groups.size());
		if (isNew)
			groups.push_back({std::move(text), {}});
		groups[place->second].second.push_back(&run);
	}
	return groups;
}

// "a.aat, b.aat and 2 more"
std::string filesOf(const std::vector<const trace::Trace *> &runs)
{
	std::vector<std::string> names;
	for (size_t i = 0; i < runs.size() && i < 3; i++)
		names.push_back(here(runs[i]->path));
	const auto text = join(names, ", ");
	return runs.size() > 3 ? fmt::format("{} and {} more", text, runs.size() - 3) : text;
}

// Which program, how it ended, under which configuration.
std::vector<std::string> heading(const Runs &runs, size_t width)
{
	const auto &first = runs.front();
	std::vector<std::string> lines;
	if (runs.size() == 1) {
		const auto ending = fmt::format("  ({}, pid {})", endingOf(first), first.pid);
		lines.push_back(fit(commandOf(first), std::max<size_t>(12, width - std::min(widthOf(ending), width))) + ending);
	} else {
		lines.push_back(fmt::format("{} processes, the first: {}", runs.size(), commandOf(first)));
		std::vector<std::string> died;
		for (const auto &run : runs)
			if (!run.diedInside.empty() || run.conclusion.ended >= trace::Ended::signalled)
				died.push_back(fmt::format("pid {} {}", run.pid, endingOf(run)));
		if (!died.empty())
			lines.push_back(join(died, "; "));
	}
	constexpr size_t most = 4; // lines: the summary has little room
	const auto groups = alike(runs, settingsOf);
	for (size_t i = 0; i < groups.size() && i < most; i++) {
		const auto &[settings, members] = groups[i];
		if (groups.size() == 1 && !settings.empty())
			lines.push_back(settings);
		else if (groups.size() > 1)
			lines.push_back(fmt::format("{}: {}", filesOf(members), settings.empty() ? "settings unknown" : settings));
	}
	if (groups.size() > most)
		lines.push_back(fmt::format("and {} (--report config)", plural(groups.size() - most, "other configuration")));
	return lines;
}

std::string work(const Terminal &terminal, const Account &account, size_t width)
{
	Table table("lrrrrrr");
	const auto time = [&](const Sum &sum) { return sum.timeNs(account.isMeasured); };
	const auto add = [&](const std::string &name, const Sum &sum, Style style) {
		if (sum.calls > 0)
			table.add({name, count(sum.calls), share(double(sum.calls), double(account.eligible.calls)),
			           amount(sum.flops), share(sum.flops, account.eligible.flops), duration(time(sum)),
			           share(time(sum), time(account.eligible))},
			          style);
	};
	table.add({"fp32 products", "calls", "", "FLOP", "", account.isMeasured ? "kernels" : "model", ""}, Style::bold);
	add(fmt::format("  lowered to {}", fmt::join(account.loweredTo, "/")), account.lowered, Style::green);
	add("  would be lowered", account.wouldLower, Style::green);
	add("  raised", account.eligibleRaised, Style::green);
	add("  fallback", account.fallback, Style::red);
	add("  kept", account.eligibleKept, Style::yellow);
	table.add({"  all", count(account.eligible.calls), "", amount(account.eligible.flops), "",
	           duration(time(account.eligible)), ""});
	const uint64_t raised = account.raised.calls - account.eligibleRaised.calls;
	if (raised > 0)
		table.add({"raised to fp32", count(raised), "", amount(account.raised.flops - account.eligibleRaised.flops), "",
		           "", ""});
	const uint64_t others = account.all.calls - account.eligible.calls - raised;
	if (others > 0)
		table.add({"other calls", count(others), "", "", "", "", ""});
	auto text = table.print(terminal, width);
	std::string most;
	for (size_t i = 0; i < account.heaviest.size() && i < 3 && account.heaviest[i].second > 0; i++) {
		const auto &[what, ns] = account.heaviest[i];
		const auto more = fmt::format("{}{} {}", i ? ", " : "most time: ", what, share(ns, time(account.eligible)));
		if (i > 0 && widthOf(most + more) > width)
			break; // half a name tells nothing
		most += more;
	}
	return most.empty() ? text : text + fit(most, width) + "\n";
}

// What lowering brought, as far as it can be said.
std::string gain(const Account &account)
{
	const auto &lowered = account.lowered;
	if (account.all.calls == 0)
		return "gain: unknown, no call was recorded";
	if (lowered.calls == 0)
		return "gain: none, nothing was lowered";
	if (account.isEmulated)
		return "gain: unknown, the times of the emulated device say nothing";
	if (account.isMeasured && lowered.estNs > 0)
		return fmt::format("gain: {} in kernels, casting included; in fp32 {} by the cost model",
		                   duration(lowered.timeNs(true)), duration(lowered.estNs));
	if (lowered.estLoweredNs > 0)
		return fmt::format("gain: the cost model's estimate for the lowered products is {:.1f}x",
		                   lowered.estNs / lowered.estLoweredNs);
	return "gain: unknown to the cost model";
}

bool isKept(const ReasonSum &reason)
{
	return reason.decision == "kept" || reason.decision == "fallback";
}

// As many reasons as lines are left; the last line says what is not shown.
std::string whyKept(const Terminal &terminal, const Account &account, size_t width, size_t lines)
{
	std::vector<const ReasonSum *> kept;
	for (const auto &reason : account.reasons)
		if (isKept(reason) || (reason.decision == "observed" && !reason.isLower))
			kept.push_back(&reason);
	if (kept.empty() || lines < 3)
		return {};
	Table table("lrrrl");
	table.add({"kept because", "calls", "FLOP", "time", "which means"}, Style::bold);
	size_t shown = kept.size() <= lines - 1 ? kept.size() : lines - 2;
	for (size_t i = 0; i < shown; i++) {
		const auto known = reasonOf(kept[i]->reason);
		const auto &eligible = kept[i]->eligible;
		const bool isPart = eligible.calls > 0;
		table.add(
		    {"  " + kept[i]->reason, count(kept[i]->calls),
		     isPart ? share(eligible.flops, account.eligible.flops) : "-",
		     isPart ? share(eligible.timeNs(account.isMeasured), account.eligible.timeNs(account.isMeasured)) : "-",
		     known ? policy::meaning(*known) : ""});
	}
	auto text = table.print(terminal, width);
	if (shown < kept.size())
		text += fmt::format("  and {} (--report reasons)\n", plural(kept.size() - shown, "more reason"));
	return text;
}

std::string withLines(const std::vector<std::string> &lines, size_t width)
{
	std::string text;
	for (const auto &line : lines)
		text += fit(shown(line), width) + "\n";
	return text;
}

size_t linesOf(const std::string &text)
{
	return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

} // namespace

std::string describeNotEmulated(const Account &account)
{
	if (account.notEmulated.empty())
		return {};
	uint64_t launches = 0;
	for (const auto &[kernel, number] : account.notEmulated)
		launches += number;
	return fmt::format("results may be wrong: the emulated device could not run {} ({}), the first: {}; "
	                   "tools/emulated/README.md explains how to add it",
	                   plural(account.notEmulated.size(), "kernel"),
	                   launches ? "launches: " + count(launches) : "refused when looked up",
	                   demangled(account.notEmulated.begin()->first));
}

std::vector<std::string> shortages(const Account &account)
{
	std::vector<std::string> lines;
	for (const auto &sum : account.reasons) {
		const auto reason = reasonOf(sum.reason);
		if (reason && sum.decision == policy::name(policy::Verdict::lowered) && policy::isShortage(*reason))
			lines.push_back(fmt::format("not cast, lowered by another strategy: {} ({}); {}", plural(sum.calls, "call"),
			                            sum.reason, policy::advice(*reason)));
	}
	return lines;
}

std::vector<std::string> scalerWorries(const Account &account)
{
	static constexpr struct {
		const char *kind, *meaning;
		bool isWorry;
	} kinds[] = {{"overflow", "float16 overflowed, because scaling is off", true},
	             {"underflow", "float16 lost small elements that count", true},
	             {"scale_range", "no power of two brings all values into float16's range", true},
	             {"nonfinite_input", "the operand had Inf or NaN", true},
	             {"clamped", "finite values beyond bfloat16's largest were clamped to it", true},
	             {"rescale", "", false}};
	std::string totals, worst, measured, rule;
	for (const auto &kind : kinds)
		for (const auto &sum : account.scaler) {
			if (sum.kind != kind.kind || sum.count == 0)
				continue;
			totals += fmt::format("{}{} {}", totals.empty() ? "scaling: " : ", ", count(sum.count), sum.kind);
			if (kind.isWorry && worst.empty())
				worst = fmt::format("{} at {} ({})", kind.meaning, plural(sum.sites.size(), "site"), sum.example);
			if (sum.excess >= 0)
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
	// Events are copied from the device after each lowered call and at exit, so that the last ones need the exit.
	const bool isCast = std::any_of(run.rows.begin(), run.rows.end(), [](const auto &row) {
		return row.calls > 0 && row.decision == policy::name(policy::Verdict::lowered) &&
		       row.strategy == policy::name(policy::Strategy::cast);
	});
	if (isCast && run.ended == "running")
		return "events may be missing, the program is running";
	return isCast && !run.ended.starts_with("exit") ? "events of the last calls may be missing, there was no exit" : "";
}

std::vector<std::string> scalerGaps(const Runs &runs)
{
	std::vector<std::string> gaps;
	for (const auto &run : runs)
		if (auto gap = scalerGap(run); !gap.empty() && std::find(gaps.begin(), gaps.end(), gap) == gaps.end())
			gaps.push_back(std::move(gap));
	return gaps;
}

std::vector<std::string> suggestions(const Account &account)
{
	std::vector<std::string> lines;
	if (account.wouldLower.calls > 0)
		lines.push_back(fmt::format("AUTOAMP_LEVEL=O1 would lower {} of the fp32 FLOP",
		                            share(account.wouldLower.flops, account.eligible.flops)));
	for (const auto &sum : account.scaler)
		if (sum.kind == "overflow" && sum.count > 0)
			lines.push_back("AUTOAMP_SCALING=auto: float16 overflowed with scaling off");
	for (const auto &reason : account.reasons)
		if (const auto advice = adviceOn(reason.reason); isKept(reason) && !advice.empty() && account.matters(reason))
			lines.push_back(fmt::format("{} ({} of the FLOP): {}", reason.reason,
			                            share(reason.eligible.flops, account.eligible.flops), advice));
	return lines;
}

void writeSummary(std::FILE *out, const Terminal &terminal, const Runs &runs, const Account &account,
                  const std::string &places)
{
	const size_t width = terminal.width ? terminal.width : usualWidth;
	std::vector<std::string> top, tail;
	for (const auto &line : warnings(account)) {
		std::istringstream parts(wrap(line, width, 2)); // whole: the settings that were assumed are long
		for (std::string part; std::getline(parts, part);)
			top.push_back(part);
	}
	const auto head = heading(runs, width);
	top.insert(top.end(), head.begin(), head.end());
	top.push_back("");

	tail = scalerWorries(account);
	if (account.whatIf.empty())
		for (const auto &gap : scalerGaps(runs))
			tail.push_back("scaling: " + gap);
	const bool isScaled =
	    std::all_of(runs.begin(), runs.end(), [](auto &run) { return configOf(run, "scaling") != "off"; });
	if (tail.empty() && account.loweredTo.contains("float16") && account.whatIf.empty())
		tail.push_back(isScaled ? "scaling: no scale had to change" : "scaling: off");
	for (auto &line : shortages(account))
		tail.push_back(std::move(line));
	if (auto line = describeNotEmulated(account); !line.empty())
		tail.push_back(std::move(line));
	for (auto &line : tail) // a rule of several lines leaves no room for what was kept
		if (const size_t end = line.find('\n'); end != line.npos)
			line = line.substr(0, end) + " the rule of --format json";
	if (account.notes > 0)
		tail.push_back(fmt::format("failures: {}, the first: {}", count(account.notes), account.firstNote));
	if (account.plans > 0)
		tail.push_back(fmt::format("plans of cuDNN built at first calls: {}, {:.0f} ms in all", count(account.plans),
		                           account.planMs));
	if (const auto recorded = describeRecorded(runs); !recorded.empty())
		tail.push_back("Recorded: " + recorded);
	if (hasLoss(account.loss))
		tail.push_back("lost: " + describe(account.loss));
	auto next = suggestions(account);
	next.resize(std::min<size_t>(next.size(), 2));
	next.push_back(fmt::format("{} report --report ops {}", invocation, places));
	const auto middle = work(terminal, account, width) + fit(gain(account), width) + "\n";
	size_t used;
	const auto rows = [&] { // what is to be copied is never cut
		used = top.size() + tail.size() + linesOf(middle);
		for (const auto &line : next)
			used += (6 + widthOf(line) + width - 1) / width;
		return used;
	};
	while (rows() > summaryLines && next.size() > 1)
		next.erase(next.end() - 2);
	std::string commands;
	for (const auto &line : next)
		commands += message("{}{}\n", commands.empty() ? "next: " : "      ", line);
	const auto reasons = whyKept(terminal, account, width, summaryLines > used ? summaryLines - used : 0);
	fmt::print(out, "{}{}{}{}{}", withLines(top, width), middle, reasons, withLines(tail, width), commands);
}

void writeConfig(std::FILE *out, const Terminal &terminal, const Runs &runs)
{
	const auto groups = alike(runs, [&](const trace::Trace &run) {
		Table table("lll");
		table.add({"setting", "value", "from"}, Style::bold);
		for (const auto &[name, value, origin] : run.config)
			table.add({configName(name), value.empty() ? "-" : value, origin});
		for (const auto &[number, rule, origin] : run.rules)
			table.add({"rule " + number, rule, origin});
		return table.print(terminal, terminal.width);
	});
	if (std::any_of(runs.begin(), runs.end(), [](auto &run) { return run.emulated; }))
		fmt::print(out, "{}\n", emulatedLine);
	for (const auto &[table, members] : groups)
		fmt::print(out, "{}{}", runs.size() > 1 ? shown(filesOf(members)) + "\n" : "", table);
}

void writeReasons(std::FILE *out, const Terminal &terminal, const Sheet &reasons, const Account &account)
{
	for (const size_t number : reasons.order) {
		const auto &reason = account.reasons[number];
		const auto head = fmt::format("{}: {}", reason.decision, reason.reason.empty() ? "?" : reason.reason);
		auto line = fmt::format("{:<24} {}, {}FLOP", head, plural(reason.calls, "call"),
		                        amount(reason.flops) + (reason.flops >= 999.5 ? "" : " "));
		if (reason.eligible.calls > 0)
			line += fmt::format(", {} of the fp32 FLOP", share(reason.eligible.flops, account.eligible.flops));
		if (const double time = reason.timeNs(account.isMeasured); time > 0)
			line += fmt::format(", {}{}", duration(time), account.isMeasured ? " in kernels" : " by the cost model");
		const auto wrapped = wrap(line, terminal.width, 4);
		const auto bold = std::min(head.size(), wrapped.find('\n'));
		fmt::print(out, "{}{}\n", terminal.paint(Style::bold, wrapped.substr(0, bold)), wrapped.substr(bold));
		if (const auto known = reasonOf(reason.reason))
			fmt::print(out, "{}\n",
			           wrap(fmt::format("    {}{}{}", policy::meaning(*known), reason.causes.empty() ? "" : ": ",
			                            shown(fmt::format("{}", fmt::join(reason.causes, ", ")))),
			                terminal.width, 4));
		if (const auto advice = adviceOn(reason.reason); !advice.empty())
			fmt::print(out, "{}\n", wrap(fmt::format("    try: {}", advice), terminal.width, 9));
	}
}

} // namespace autoamp::tool
