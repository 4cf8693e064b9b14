// The report as text. The summary fits 80x24, except with many remarks. It shows what was lowered, where fp32 time
// goes, the gain, what was kept and why, the scaler events, and the next commands.
#include "tools/autoamp/commands.h"
#include "tools/autoamp/ending.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/gradient.h"
#include "tools/autoamp/next.h"
#include "tools/autoamp/recorded.h"
#include "tools/autoamp/remarks.h"
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>

namespace autoamp::tool {

namespace {

// The rows of a terminal without the command and the next prompt. It has 24 rows if it does not report them.
size_t summaryLines(const Terminal &terminal)
{
	constexpr size_t least = 24, others = 2;
	return std::max(least, terminal.height) - others;
}

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
			parts.push_back(fmt::format("{} {}{}", name, value, name == "level" ? meaningOfLevel(run, value) : ""));
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
		const auto room = std::max<size_t>(12, width - std::min(widthOf(ending), width));
		lines.push_back(fit(commandOf(first), width ? room : 0) + ending);
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
		const auto tf32 = whyTf32(members);
		const auto line = settings + (tf32.empty() ? "" : "; " + tf32);
		if (groups.size() == 1 && !settings.empty())
			lines.push_back(line);
		else if (groups.size() > 1)
			lines.push_back(fmt::format("{}: {}", filesOf(members), settings.empty() ? "settings unknown" : line));
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
			table.add({name, duration(time(sum)), share(time(sum), time(account.eligible)), count(sum.calls),
			           share(double(sum.calls), double(account.eligible.calls)), amount(sum.flops),
			           share(sum.flops, account.eligible.flops)},
			          style);
	};
	table.add({"fp32 products", headingOf(account.times), "share", "calls", "share", "FLOP", "share"}, Style::bold);
	add(fmt::format("  lowered to {}", fmt::join(account.loweredTo, "/")), account.lowered, Style::green);
	add("  would be lowered", account.wouldLower, Style::green);
	add("  would be kept", account.wouldKeep, Style::yellow);
	add("  raised", account.eligibleRaised, Style::green);
	add("  fallback", account.fallback, Style::red);
	add("  kept", account.eligibleKept, Style::yellow);
	table.add({"  all", duration(time(account.eligible)), "", count(account.eligible.calls), "",
	           amount(account.eligible.flops), ""});
	const uint64_t raised = account.raised.calls - account.eligibleRaised.calls;
	if (raised > 0)
		table.add({"raised to fp32", "", "", count(raised), "",
		           amount(account.raised.flops - account.eligibleRaised.flops), ""});
	const uint64_t others = account.all.calls - account.eligible.calls - raised;
	if (others > 0)
		table.add({"other calls", "", "", count(others), "", "", ""});
	const auto text = table.print(terminal, width), shapes = describeShapes(account, width);
	return shapes.empty() ? text : text + wrap(shapes, width, 2) + "\n";
}

// Three times with the same source, and the measured time of the run if that source is the model.
std::string gainTable(const Terminal &terminal, const Gain &gain, bool isEmulated, size_t width)
{
	const auto &sum = gain.sum();
	Table table("lrr");
	table.add({fmt::format("gain ({})", sourceOf(gain, isEmulated)), "time", "speed"}, Style::bold);
	table.add({"  program unchanged", duration(sum.asAskedNs), ratioText(1)});
	table.add({"  this run", duration(sum.asRunNs), ratioText(sum.gain())},
	          sum.gain() < 0.995 ? Style::red : Style::plain);
	table.add({gain.isMeasured() ? "  faster precision of each shape" : "  best strategy", duration(sum.bestNs),
	           ratioText(sum.bestGain())});
	if (!gain.isMeasured() && gain.asRunNs > 0)
		table.add({"  this run, measured", duration(gain.asRunNs), ""});
	auto text = table.print(terminal, width);
	return sum.unknown > 0 ? text + fmt::format("  without {} of unknown time\n", plural(sum.unknown, "call")) : text;
}

// The gain as a table; if `isShort`, as a line.
std::string gainOf(const Terminal &terminal, const Account &account, size_t width, bool isShort)
{
	const auto &gain = account.gain;
	if (account.all.calls == 0)
		return "gain: unknown, no call was recorded\n";
	if (account.eligible.calls == 0)
		return "gain: none, no fp32 product that can be lowered\n";
	if (!gain.isKnown())
		return "gain: unknown, the cost model has no estimate\n";
	return isShort ? wrap(describeGain(gain, account.isEmulated), width, 2) + "\n"
	               : gainTable(terminal, gain, account.isEmulated, width);
}

size_t linesOf(const std::string &text)
{
	return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

// Shows as many reasons as lines remain, at least one; the last line counts the rest.
std::string whyKept(const Terminal &terminal, const Account &account, size_t width, size_t lines)
{
	std::vector<const ReasonSum *> kept;
	for (const auto &reason : account.reasons)
		if (reason.isKept() || reason.decision == "raised" || (reason.decision == "observed" && !reason.isLower))
			kept.push_back(&reason);
	const bool isRaised = std::any_of(kept.begin(), kept.end(), [](auto *each) { return each->decision == "raised"; });
	const auto tableOf = [&](size_t number) {
		Table table("lrrl");
		table.add({isRaised ? "kept or raised because" : "kept because", "time", "calls", "which means"}, Style::bold);
		for (size_t i = 0; i < number; i++) {
			const auto &eligible = kept[i]->eligible;
			table.add({"  " + kept[i]->reason,
			           eligible.calls > 0
			               ? share(eligible.timeNs(account.times), account.eligible.timeNs(account.times))
			               : "-",
			           count(kept[i]->calls), kept[i]->meaning()});
		}
		auto text = table.print(terminal, width);
		if (number < kept.size())
			text += fmt::format("  and {} (--report reasons)\n", plural(kept.size() - number, "more reason"));
		return text;
	};
	if (kept.empty())
		return {};
	size_t number = kept.size();
	while (number > 1 && linesOf(tableOf(number)) > lines)
		number--;
	return tableOf(number); // at least the first one
}

std::string withLines(const std::vector<std::string> &lines, size_t width)
{
	std::string text;
	for (const auto &line : lines)
		text += wrap(line, width, 2) + "\n";
	return text;
}

} // namespace

std::vector<std::string> remarks(const Runs &runs, const Account &account)
{
	auto lines = scalerWarnings(account);
	if (account.whatIf.empty())
		for (const auto &gap : scalerGaps(runs))
			lines.push_back("scaling: " + gap);
	const bool isScaled =
	    std::all_of(runs.begin(), runs.end(), [](auto &run) { return configOf(run, "scaling") != "off"; });
	if (lines.empty() && account.loweredTo.contains("float16") && account.whatIf.empty())
		lines.push_back(isScaled ? "scaling: no scale was changed" : "scaling: off");
	for (auto &line : describeGradients(runs))
		lines.push_back(std::move(line));
	for (auto &line : shortages(account))
		lines.push_back(std::move(line));
	if (auto line = describeNotEmulated(account); !line.empty())
		lines.push_back(std::move(line));
	std::erase_if(lines, [](auto &line) { return line.find('\n') != line.npos; }); // a rule; the advice has a remedy
	if (account.notes > 0)
		lines.push_back(fmt::format("failures: {}, the first: {}", count(account.notes), account.firstNote));
	if (account.plans > 0)
		lines.push_back(fmt::format("cuDNN plans built at first calls: {}, {:.0f} ms in total", count(account.plans),
		                            account.planMs));
	for (auto &line : describeKept(account))
		lines.push_back(std::move(line));
	if (const auto audits = describeAudits(runs); !audits.empty())
		lines.push_back("audited: " + audits);
	if (const auto recorded = describeRecorded(runs); !recorded.empty())
		lines.push_back("recorded: " + recorded);
	if (hasLoss(account.loss))
		lines.push_back("lost: " + textOf(account.loss));
	return lines;
}

void writeSummary(std::FILE *out, const Terminal &terminal, const Runs &runs, const Account &account,
                  const std::string &places)
{
	const size_t width = terminal.width; // 0: not a terminal, nothing is cut or left out
	auto top = warnings(account);
	const auto head = heading(runs, width);
	top.insert(top.end(), head.begin(), head.end());
	const auto bottom = remarks(runs, account);
	const auto next = message("next: {}\n", account.next.command);
	// Commands to copy are never cut; a terminal breaks them.
	const auto rowsOf = [&](const std::string &command) { return width ? (command.size() - 2 + width) / width : 1; };
	std::string text, kept;
	size_t used = 0;
	const size_t most = summaryLines(terminal);
	// A short gain makes space for the reasons.
	for (const bool isShort : {false, true}) {
		const auto begin =
		    withLines(top, width) + "\n" + gainOf(terminal, account, width, isShort) + work(terminal, account, width);
		const auto end = withLines(bottom, width) + withLines({"advice: " + adviceOf(account.next)}, width);
		used = linesOf(begin) + linesOf(end) + rowsOf(next);
		kept = whyKept(terminal, account, width, !width ? SIZE_MAX : most - std::min(most, used));
		text = begin + kept + end + next;
		if (!width || used + linesOf(kept) <= most)
			break;
	}
	const auto more = message("more: {} report --report ops {}\n", invocation, places);
	const bool isOther = account.next.command.find(" --report ") == std::string::npos;
	if (isOther && (!width || used + linesOf(kept) + rowsOf(more) <= most))
		text += more;
	fmt::print(out, "{}", text);
}

void writeConfig(std::FILE *out, const Terminal &terminal, const Runs &runs)
{
	const auto groups = alike(runs, [&](const trace::Trace &run) {
		Table table("lll");
		table.add({"setting", "from", "value"}, Style::bold);
		for (const auto &[name, value, origin] : run.config)
			table.add({configName(name), origin, shownSetting(run, name, value)});
		for (const auto &[number, rule, origin] : run.rules)
			table.add({"rule " + number, origin, rule});
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
		auto line = fmt::format("{:<24} ", head);
		if (const double time = reason.timeNs(account.times); time > 0) {
			constexpr const char *sources[] = {"by the cost model", "in kernels", "on the CPU"}; // by Times
			line += fmt::format("{} {}, ", duration(time), sources[static_cast<int>(account.times)]);
		}
		line += fmt::format("{}, {}FLOP", plural(reason.calls, "call"),
		                    amount(reason.flops) + (reason.flops >= 999.5 ? "" : " "));
		if (reason.eligible.calls > 0)
			line += fmt::format(", {} of the fp32 FLOP", share(reason.eligible.flops, account.eligible.flops));
		const auto wrapped = wrap(line, terminal.width, 4);
		const auto bold = std::min(head.size(), wrapped.find('\n'));
		fmt::print(out, "{}{}\n", terminal.paint(Style::bold, wrapped.substr(0, bold)), wrapped.substr(bold));
		if (const auto meaning = reason.meaning(); !meaning.empty())
			fmt::print(out, "{}\n",
			           wrap(fmt::format("    {}{}{}", meaning, reason.causes.empty() ? "" : ": ",
			                            fmt::join(reason.causes, ", ")),
			                terminal.width, 4));
		if (const auto advice = reason.advice(); !advice.empty())
			fmt::print(out, "{}\n", wrap(fmt::format("    try: {}", advice), terminal.width, 9));
	}
}

} // namespace autoamp::tool
