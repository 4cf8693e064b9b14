// The report as text. The summary fits 80x24. It shows what was lowered, where fp32 time goes, the gain, what was kept
// and why, the scaler events, and the next commands.
#include "tools/autoamp/commands.h"
#include "tools/autoamp/ending.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/gradient.h"
#include "tools/autoamp/recorded.h"
#include "tools/autoamp/remarks.h"
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <sstream>

namespace autoamp::tool {

namespace {

constexpr size_t summaryLines = 22; // 24 without the command and the next prompt
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

std::string versionOf(const trace::Trace &run, const char *name)
{
	for (const auto &property : run.versions)
		if (property.name == name)
			return property.value;
	return {};
}

// Settings, first device and BLAS of a run.
std::string settingsOf(const trace::Trace &run)
{
	const auto blas = versionOf(run, "blas");
	std::vector<std::string> parts;
	for (const std::string name : {"level", "dtype", "strategy", "scaling"})
		if (const auto value = name == "dtype" ? dtypeOf(run) : configOf(run, name.c_str());
		    !value.empty() && (name != "scaling" || value == "off"))
			parts.push_back(fmt::format("{} {}", name, value));
	auto line = join(parts, ", ");
	std::string place = run.devices.empty() ? "" : run.devices.front();
	if (!blas.empty())
		place += (place.empty() ? "the CPU, " : ", and the CPU, ") + blas;
	if (!place.empty())
		line += (line.empty() ? "on " : "; on ") + place;
	return line;
}

// Runs grouped by a text, such as their settings, in the order of the runs.
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

// The program, its end, and the configurations.
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
	constexpr size_t most = 4; // lines; the summary is short
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
	const auto time = [&](const Sum &sum) { return sum.timeNs(account.times); };
	const auto add = [&](const std::string &name, const Sum &sum, Style style) {
		if (sum.calls > 0)
			table.add({name, count(sum.calls), share(double(sum.calls), double(account.eligible.calls)),
			           amount(sum.flops), share(sum.flops, account.eligible.flops), duration(time(sum)),
			           share(time(sum), time(account.eligible))},
			          style);
	};
	constexpr const char *headings[] = {"model", "kernels", "time"}; // by Times
	table.add({"fp32 products", "calls", "", "FLOP", "", headings[static_cast<int>(account.times)], ""}, Style::bold);
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
			break; // whole entries only
		most += more;
	}
	return most.empty() ? text : text + fit(most, width) + "\n";
}

// The gain from lowering, as far as it is known.
std::string gain(const Account &account)
{
	const auto &lowered = account.lowered;
	if (account.all.calls == 0)
		return "gain: unknown, no call was recorded";
	if (lowered.calls == 0)
		return "gain: none, nothing was lowered";
	if (account.isEmulated)
		return "gain: unknown, the times of the emulated device have no meaning";
	if (account.gain.isKnown())
		return describeGain(account.gain);
	if (account.times == Times::host)
		return "gain: not measured; autoamp run --audit 0.02 measures it";
	if (account.times == Times::kernels && lowered.estNs > 0)
		return fmt::format("gain: {} in kernels, conversions included; {} in fp32 by the cost model",
		                   duration(lowered.timeNs(Times::kernels)), duration(lowered.estNs));
	if (lowered.estLoweredNs > 0)
		return fmt::format("gain: the cost model's estimate for the lowered products is {:.1f}x",
		                   lowered.estNs / lowered.estLoweredNs);
	return "gain: unknown, the cost model has no estimate";
}

// Shows as many reasons as lines remain; the last line counts the rest.
std::string whyKept(const Terminal &terminal, const Account &account, size_t width, size_t lines)
{
	std::vector<const ReasonSum *> kept;
	for (const auto &reason : account.reasons)
		if (reason.isKept() || (reason.decision == "observed" && !reason.isLower))
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
		table.add({"  " + kept[i]->reason, count(kept[i]->calls),
		           isPart ? share(eligible.flops, account.eligible.flops) : "-",
		           isPart ? share(eligible.timeNs(account.times), account.eligible.timeNs(account.times)) : "-",
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

void writeSummary(std::FILE *out, const Terminal &terminal, const Runs &runs, const Account &account,
                  const std::string &places)
{
	const size_t width = terminal.width ? terminal.width : usualWidth;
	std::vector<std::string> top, tail;
	for (const auto &line : warnings(account)) {
		std::istringstream parts(wrap(line, width, 2)); // not cut: the list of assumed settings is long
		for (std::string part; std::getline(parts, part);)
			top.push_back(part);
	}
	const auto head = heading(runs, width);
	top.insert(top.end(), head.begin(), head.end());
	top.push_back("");

	tail = scalerWarnings(account);
	if (account.whatIf.empty())
		for (const auto &gap : scalerGaps(runs))
			tail.push_back("scaling: " + gap);
	const bool isScaled =
	    std::all_of(runs.begin(), runs.end(), [](auto &run) { return configOf(run, "scaling") != "off"; });
	if (tail.empty() && account.loweredTo.contains("float16") && account.whatIf.empty())
		tail.push_back(isScaled ? "scaling: no scale was changed" : "scaling: off");
	for (const auto &line : describeGradients(runs)) {
		std::istringstream parts(wrap(line, width, 2));
		for (std::string part; std::getline(parts, part);)
			tail.push_back(part);
	}
	for (auto &line : shortages(account))
		tail.push_back(std::move(line));
	if (auto line = describeNotEmulated(account); !line.empty())
		tail.push_back(std::move(line));
	for (auto &line : tail) // a rule of several lines would displace the kept calls
		if (const size_t end = line.find('\n'); end != line.npos)
			line = line.substr(0, end) + " see the rule in --format json";
	if (account.notes > 0)
		tail.push_back(fmt::format("failures: {}, the first: {}", count(account.notes), account.firstNote));
	if (account.plans > 0)
		tail.push_back(fmt::format("cuDNN plans built at first calls: {}, {:.0f} ms in total", count(account.plans),
		                           account.planMs));
	std::istringstream weights(wrap(describeWeights(account.weights), width, 2));
	for (std::string part; std::getline(weights, part);)
		tail.push_back(part);
	if (const auto audits = describeAudits(runs); !audits.empty())
		tail.push_back("audited: " + audits);
	if (const auto recorded = describeRecorded(runs); !recorded.empty())
		tail.push_back("Recorded: " + recorded);
	if (hasLoss(account.loss))
		tail.push_back("lost: " + textOf(account.loss));
	auto next = suggestions(account);
	next.resize(std::min<size_t>(next.size(), 2));
	next.push_back(fmt::format("{} report --report ops {}", invocation, places));
	const auto line = gain(account);
	const auto middle =
	    work(terminal, account, width) + (account.gain.isKnown() ? wrap(line, width, 6) : fit(line, width)) + "\n";
	size_t used;
	const auto rows = [&] { // commands to copy are never cut
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
		if (const double time = reason.timeNs(account.times); time > 0) {
			constexpr const char *sources[] = {"by the cost model", "in kernels", "on the CPU"}; // by Times
			line += fmt::format(", {} {}", duration(time), sources[static_cast<int>(account.times)]);
		}
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
