// What `autoamp run` says at the end: what was lowered, what was kept and why, where the trace is, what to type next.
#include "tools/autoamp/doctor.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/machine.h"
#include "tools/autoamp/recorded.h"
#include "tools/autoamp/report.h"
#include "tools/autoamp/run.h"
#include "tools/autoamp/text.h"

#include <algorithm>
#include <filesystem>
#include <glob.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

// A pattern as a glob: what stands for a %-word is anything, so is what a second process puts before the suffix.
std::string asGlob(const std::string &pattern)
{
	std::string result;
	const auto suffix = std::min(pattern.rfind('.'), pattern.size());
	const bool hasSuffix = pattern.find('/', suffix) == std::string::npos;
	for (size_t at = 0; at < pattern.size(); at++) {
		if (at == suffix && hasSuffix)
			result += '*';
		if (pattern[at] != '%' || pattern.compare(at, 2, "%%") == 0) {
			at += pattern[at] == '%';
			result += std::string("*?[\\").find(pattern[at]) != std::string::npos ? "\\" : "";
			result += pattern[at];
			continue;
		}
		const bool isRank = pattern.compare(at, 6, "%rank%") == 0, isVariable = pattern.compare(at, 3, "%q{") == 0;
		at = isRank ? at + 5 : isVariable ? std::min(pattern.find('}', at), pattern.size()) : at + 1;
		result += '*';
	}
	return hasSuffix && suffix < pattern.size() ? result : result + "*";
}

// The traces of this run. Other runs may write into the same folder at the same time (ranks of one job do).
Runs collect(const Outcome &outcome)
{
	Runs runs;
	glob_t found = {};
	if (::glob(asGlob(outcome.configuration.traceFile).c_str(), GLOB_NOSORT, nullptr, &found) == 0)
		for (size_t i = 0; i < found.gl_pathc; i++) {
			const auto ids = trace::runIdsOf(found.gl_pathv[i]);
			std::string error;
			if (!ids || !ids->isPartOf(outcome.id))
				continue;
			trace::foldTail(found.gl_pathv[i]);
			if (auto run = trace::Trace::open(found.gl_pathv[i], error))
				runs.push_back(std::move(*run));
		}
	::globfree(&found);
	std::sort(runs.begin(), runs.end(), [](auto &x, auto &y) { return x.startedNs < y.startedNs; });
	return runs;
}

// No intercepted call: why, as far as can be told from outside.
Diagnosis diagnose(const Outcome &outcome)
{
	const auto &program = outcome.program;
	const auto &configuration = outcome.configuration;
	const auto installation = findInstallation();
	std::string command;
	for (const auto &word : outcome.command)
		command += " " + quoted(word);
	const auto again = [&](const char *before, const char *options) {
		return fmt::format("{}{} run{}{} --{}", before, invocation, outcome.isEmulated ? " --device emulated" : "",
		                   options, command);
	};
	if (!configuration.enabled)
		return {"AUTOAMP_ENABLED=0 switches autoamp off", again("AUTOAMP_ENABLED=1 ", "")};
	if (auto obstacle = whyOutOfReach(program))
		return std::move(*obstacle);
	if (configuration.trace == policy::TraceLevel::off)
		return {"AUTOAMP_TRACE=off: what happened was not recorded", again("", " --trace summary")};
	if (const auto problem = whyNoTrace(configuration.traceFile); !problem.empty())
		return {fmt::format("no trace can be written to {}: {}", configuration.traceFile, problem),
		        again("", " -o /tmp/%e.%p.aat")};
	if (const auto problem = whyCoreFails(installation); !problem.empty())
		return {fmt::format("autoamp stayed off, {} cannot be loaded: {}", installation.core(), problem),
		        fmt::format("{} doctor --{}", invocation, command)};
	const bool isLinked = program.needs("libcublas") || program.needs("libcudnn");
	if (!configuration.hookDlsym && !isLinked)
		return {"the library was loaded, but nothing called cuBLAS or cuDNN through it, and --no-hook misses what "
		        "dlsym finds",
		        again("AUTOAMP_HOOK_DLSYM=1 ", "")};
	if (!isLinked && configuration.valueOf(policy::Option::hookDlsym) != "got")
		return {"the library was loaded but not called: no cuBLAS or cuDNN call was made, or by a plug-in that binds "
		        "past what is "
		        "preloaded (RTLD_DEEPBIND), or products run in other kernels (Triton, CUTLASS, a static cuBLAS in a "
		        "plugin)",
		        again("AUTOAMP_HOOK_DLSYM=got ", "")};
	for (const auto &library : program.libraries)
		if (library.starts_with("libcublas.so.") && !library.ends_with(".12") && !library.ends_with(".13"))
			return {fmt::format("{} is linked to {}; autoamp serves CUDA 12 and 13", program.path, library),
			        "ldd " + quoted(program.path)};
	if (program.isElf && !isLinked)
		return {
		    "the library was loaded but not called: no cuBLAS or cuDNN call was made, or products run in other kernels "
		    "(Triton, CUTLASS, a static cuBLAS in a plugin)",
		    again("AUTOAMP_LOG=info ", "")};
	return {"the library was loaded but not called: the program is linked to the libraries but made no call of them",
	        again("AUTOAMP_LOG=info ", "")};
}

std::string reasonsIn(const Account &account, bool eligibleOnly)
{
	std::vector<std::string> words;
	uint64_t more = 0;
	for (const auto &reason : account.reasons) {
		const auto calls = eligibleOnly ? reason.eligible.calls : reason.calls;
		if (reason.decision != "kept" || calls == 0)
			continue;
		if (words.size() < 3)
			words.push_back(fmt::format("{} {}", reason.reason, count(calls)));
		else
			more += calls;
	}
	if (more > 0)
		words.push_back(fmt::format("others {}", count(more)));
	return fmt::format("{}", fmt::join(words, ", "));
}

// What to give `report`: the file that stands for all of them, or a few, or their folder.
std::string whereToFind(const Runs &runs)
{
	std::vector<std::string> files;
	for (const auto &run : runs)
		files.push_back(run.path);
	std::sort(files.begin(), files.end(), [](auto &x, auto &y) { return x.size() < y.size(); });
	const auto family = trace::family(files.front());
	if (std::all_of(files.begin(), files.end(),
	                [&](auto &file) { return std::count(family.begin(), family.end(), file); }))
		files.resize(1);
	if (files.size() > 3)
		files = {fs::path(files.front()).parent_path()};
	for (auto &file : files)
		file = quoted(here(file));
	return fmt::format("{}", fmt::join(files, " "));
}

// The entry point and the reason that all calls have in common; null: there is none.
const trace::RowInfo *onlyEntry(const Runs &runs)
{
	const trace::RowInfo *only = nullptr;
	for (const auto &run : runs)
		for (const auto &row : run.rows) {
			if (row.calls == 0)
				continue;
			if (only && std::tie(row.entry, row.reason) != std::tie(only->entry, only->reason))
				return nullptr;
			only = &row;
		}
	return only;
}

std::vector<std::string> describe(const Runs &runs, const Account &account)
{
	std::vector<std::string> lines;
	const auto all = count(account.eligible.calls);
	auto types = account.loweredTo;
	if (types.empty() && runs.front().rules.empty()) // of what was only observed the strategy is known
		for (const auto &strategy : account.wouldLowerBy)
			types.insert(strategy == "tf32" ? strategy : configOf(runs.front(), "dtype"));
	const auto lowered = [&](const char *verb, const Sum &sum) {
		lines.push_back(fmt::format("{} {} of {} fp32 products ({} of their FLOP){}{}", verb, count(sum.calls), all,
		                            share(sum.flops, account.eligible.flops), types.empty() ? "" : " to ",
		                            fmt::join(types, " and ")));
	};
	if (account.eligible.calls == 0) {
		const bool isLow = std::all_of(account.reasons.begin(), account.reasons.end(),
		                               [](const auto &reason) { return reason.reason == "already_low"; });
		const auto calls = plural(account.all.calls, "call");
		const auto *const only = onlyEntry(runs);
		lines.push_back(isLow  ? fmt::format("{}, all 16-bit already: nothing to lower", calls)
		                : only ? fmt::format("{} of {} ({}): nothing to lower", calls, only->entry, only->reason)
		                       : fmt::format("{}, none an fp32 product that has a lower form: {}", calls,
		                                     reasonsIn(account, false)));
	} else if (account.observed.calls > 0 && account.lowered.calls == 0) {
		lowered("observed: O1 would lower", account.wouldLower);
	} else {
		lowered("lowered", account.lowered);
	}
	if (account.raised.calls > 0)
		lines.push_back(fmt::format("raised {} to fp32", plural(account.raised.calls, "product")));
	if (account.eligibleKept.calls > 0)
		lines.push_back(fmt::format("kept {}: {}", count(account.eligibleKept.calls), reasonsIn(account, true)));
	if (account.fallback.calls > 0)
		lines.push_back(fmt::format("{} fell back to fp32: {}", plural(account.fallback.calls, "call"),
		                            account.firstNote.empty() ? "see the reasons" : account.firstNote));
	for (const auto &reason : account.reasons)
		if (reason.reason == policy::name(policy::Reason::second_copy))
			lines.push_back("left alone: what is called in a second copy of cuBLAS; `report --report ops` names it");
	for (auto &line : shortages(account))
		lines.push_back(std::move(line));
	for (const auto &worry : scalerWorries(account))
		lines.push_back(worry);
	for (const auto &run : runs)
		if (!run.diedInside.empty())
			lines.push_back(fmt::format("pid {} died inside {}", run.pid, run.diedInside));
	if (const auto recorded = describeRecorded(runs); !recorded.empty())
		lines.push_back("recorded: " + recorded);
	if (hasLoss(account.loss))
		lines.push_back("lost: " + tool::describe(account.loss));

	const auto places = whereToFind(runs);
	lines.push_back(fmt::format("{} in {}", plural(runs.size(), "trace"), places));
	lines.push_back(fmt::format("next: {} report {}", invocation, places));
	return lines;
}

} // namespace

void writeReceipt(const Outcome &outcome, Colour colour)
{
	const Terminal terminal(STDERR_FILENO, colour);
	const auto runs = collect(outcome);
	const auto account = add(runs);
	std::string text;
	if (outcome.isEmulated || account.isEmulated)
		text += fmt::format("{}\n", terminal.paint(Style::yellow, emulatedLine));
	std::vector<std::string> lines;
	const auto recorded = describeRecorded(runs);
	if (account.all.calls == 0 && !recorded.empty()) {
		lines = {"recorded: " + recorded, fmt::format("{} in {}", plural(runs.size(), "trace"), whereToFind(runs))};
	} else if (account.all.calls == 0) {
		const auto diagnosis = diagnose(outcome);
		lines = {"no cuBLAS or cuDNN call was intercepted: " + diagnosis.cause, "next: " + diagnosis.next};
	} else {
		lines = describe(runs, account);
	}
	for (const auto &line : lines) { // a rule to copy has several lines
		std::string safe;
		for (size_t at = 0; at <= line.size();) {
			const size_t end = std::min(line.find('\n', at), line.size());
			safe += shown(std::string_view(line).substr(at, end - at)) + "\n";
			at = end + 1;
		}
		text += terminal.paint(Style::bold, "autoamp:") + " " + safe;
	}
	complain(text);
}

} // namespace autoamp::tool
