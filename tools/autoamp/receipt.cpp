// The receipt of `autoamp run`: the lowered calls, the kept calls with their reasons, the trace, the next commands.
#include "src/trace/read/files.h"
#include "src/trace/tail_name.h"
#include "tools/autoamp/commands.h"
#include "tools/autoamp/doctor.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/gradient.h"
#include "tools/autoamp/machine.h"
#include "tools/autoamp/next.h"
#include "tools/autoamp/recorded.h"
#include "tools/autoamp/refusals.h"
#include "tools/autoamp/remarks.h"
#include "tools/autoamp/run.h"
#include "tools/autoamp/text.h"
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"
#include "tools/autoamp/whatif.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

// Converts a name pattern to a glob. Each %-word matches any text, and so does the part that a second process inserts
// before the suffix.
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

struct Collected {
	Runs runs;
	std::string unreadable; // the error of a file that may be a damaged trace of this run; "": no such file
};

// Files whose names the traces of this run can have. Other runs may write to the same folder at the same time, for
// example ranks of one job.
std::vector<std::string> candidates(const Outcome &outcome)
{
	const auto matches = [](const std::string &pattern) {
		std::vector<std::string> paths;
		glob_t found = {};
		if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
			paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
		::globfree(&found);
		return paths;
	};
	const auto pattern = asGlob(outcome.configuration.traceFile);
	const size_t name = pattern.rfind('/') + 1;
	auto paths = matches(pattern);
	// A trace that was removed can have left its tail, FOLDER/.NAME.tail.
	for (auto path : matches(pattern.substr(0, name) + "." + pattern.substr(name) + ".tail")) {
		path.resize(path.size() - std::strlen(".tail"));
		path.erase(path.rfind('/') + 1, 1);
		if (std::find(paths.begin(), paths.end(), path) == paths.end())
			paths.push_back(path);
	}
	return paths;
}

// The file next to a trace that was replaced while the program ran. It contains the totals and all data not yet
// written.
std::string tailOf(const std::string &path)
{
	char name[4096];
	return trace::tailName(path.c_str(), name, sizeof name) ? name : "";
}

// The traces of this run.
Collected collect(const Outcome &outcome)
{
	Collected collected;
	const auto take = [&](const std::string &path) {
		std::string error;
		const auto ids = trace::runIdsOf(path);
		auto run = ids && ids->isPartOf(outcome.id) ? trace::Trace::open(path, error) : std::nullopt;
		if (run)
			collected.runs.push_back(std::move(*run));
		return run.has_value();
	};
	for (const auto &path : candidates(outcome)) {
		struct stat status;
		std::string error;
		if (take(path) || take(tailOf(path)))
			continue;
		if (!trace::runIdsOf(path) && ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
		    status.st_mtim.tv_sec >= outcome.startedSeconds && !trace::Trace::open(path, error)) {
			collected.unreadable = error; // the file contains no run id, but the program may have written it
		}
	}
	auto &runs = collected.runs;
	std::sort(runs.begin(), runs.end(), [](auto &x, auto &y) { return x.startedNs < y.startedNs; });
	return collected;
}

// The command of this run with changed settings. A trace file without % exists now, and is kept.
std::string commandAgain(const Outcome &outcome, std::vector<Change> changes)
{
	const bool isRenamed =
	    std::any_of(changes.begin(), changes.end(), [](auto &each) { return each.variable == "AUTOAMP_TRACE_FILE"; });
	if (!isRenamed && outcome.configuration.traceFile.find('%') == std::string::npos)
		changes.push_back({"AUTOAMP_TRACE_FILE", "./%e.%p.aat"});
	for (size_t i = 0; i < policy::optionTable().size(); i++) { // variables need not be exported
		const std::string name = policy::optionTable()[i].name;
		const bool isChanged =
		    std::any_of(changes.begin(), changes.end(), [&](auto &each) { return each.variable == name; });
		if (outcome.configuration.place[i].starts_with("environment") && name != "AUTOAMP_TRACE_FILE" && !isChanged)
			changes.push_back({name, outcome.configuration.valueOf(static_cast<policy::Option>(i))});
	}
	std::string command, typed;
	for (const auto &word : outcome.command)
		command += " " + quoted(word);
	for (const auto &word : withoutOptions(outcome.typed, changes))
		typed += " " + quoted(word);
	const auto prefix = prefixOf(changes);
	return fmt::format("{}{} run{}{} --{}", prefix.variables, invocation, typed, prefix.options, command);
}

// The cause if the traces contain no call. isUnseen: calls may have been made, and only their record is missing.
struct Absence {
	Diagnosis diagnosis;
	bool isUnseen = false;
};

Absence explainAbsence(const Outcome &outcome, const Collected &collected, const Account &account, bool isOrdinaryEnd)
{
	const auto &program = outcome.program;
	const auto &configuration = outcome.configuration;
	const auto installation = findInstallation();
	std::string command;
	for (const auto &word : outcome.command)
		command += " " + quoted(word);
	const auto again = [&](const char *variable, const char *value) {
		return commandAgain(outcome, {{variable, value}});
	};
	const auto doctor = fmt::format("{} doctor --{}", invocation, command);
	const auto blas = outcome.isOnCpu ? blasOf(program) : "";
	const bool isLinked = outcome.isOnCpu ? !blas.empty() : program.needs("libcublas") || program.needs("libcudnn");
	const std::string called = outcome.isOnCpu ? "a CPU BLAS" : "cuBLAS or cuDNN";
	const bool isDlsymHooked = configuration.hookDlsym || isLinked;
	const auto older = std::find_if(program.libraries.begin(), program.libraries.end(), [](auto &library) {
		return library.starts_with("libcublas.so.") && !library.ends_with(".12") && !library.ends_with(".13");
	});
	// True if the program shows signs of opening plug-ins. autoamp cannot know here whether a plug-in bypasses the
	// preload.
	const bool opens = !outcome.isOnCpu && !program.sign(Sign::opens).empty() &&
	                   configuration.valueOf(policy::Option::hookDlsym) != "got";
	const auto obstacle = whyOutOfReach(program, outcome.isOnCpu);
	const auto noTrace = configuration.trace == policy::TraceLevel::off ? "" : whyNoTrace(configuration.traceFile);
	const auto noCore = whyCoreFails(installation, outcome.isOnCpu);
	const bool mayChangeUser = ::geteuid() == 0; // such a process may not write to the board
	using Failure = base::RunBoard::Failure;
	const auto failure = outcome.board ? outcome.board->failure : Failure::none;
	const std::string problem = failure == Failure::none ? "" : shown(outcome.board->text);
	const auto &runs = collected.runs;
	const bool isInside = std::any_of(runs.begin(), runs.end(), [](auto &run) { return !run.diedInside.empty(); });
	const auto missing = outcome.processes() - std::min<uint64_t>(outcome.processes(), runs.size());
	const std::string unsure =
	    outcome.board ? "" : ", or autoamp could not work there (no shared memory for the reason)";
	const std::string later = configuration.trace == policy::TraceLevel::kernels && runs.empty()
	                              ? "; kernels and gradient scalers are recorded from the first such call on"
	                              : "";
	const struct {
		bool holds;
		std::string cause, next;
		bool isUnseen = false;
	} causes[] = {
	    {!configuration.enabled, "AUTOAMP_ENABLED=0 disables autoamp", again("AUTOAMP_ENABLED", "1")},
	    {obstacle.has_value(), obstacle ? obstacle->cause : "", obstacle ? obstacle->next : ""},
	    {!noCore.empty(),
	     fmt::format("autoamp stayed off because {} cannot be loaded: {}", installation.core(), noCore), doctor},
	    {failure == Failure::off, "autoamp stayed off in a process: " + problem, doctor},
	    {configuration.trace == policy::TraceLevel::off,
	     "AUTOAMP_TRACE=off; the settings decided which calls were lowered", again("AUTOAMP_TRACE", "summary"), true},
	    {!noTrace.empty(), fmt::format("no trace can be written to {}: {}", shown(configuration.traceFile), noTrace),
	     again("AUTOAMP_TRACE_FILE", "/tmp/%e.%p.aat"), true},
	    {failure == Failure::noTrace, "a process could not write its trace: " + problem,
	     again("AUTOAMP_TRACE_FILE", "/tmp/%e.%p.aat"), true},
	    {!collected.unreadable.empty(),
	     fmt::format("{}; it was truncated or overwritten while the program ran", shown(collected.unreadable)),
	     again("AUTOAMP_TRACE_FILE", "/tmp/%e.%p.aat"), true},
	    {hasLoss(account.loss), "the trace is incomplete: " + textOf(account.loss),
	     again("AUTOAMP_TRACE_FILE", "/tmp/%e.%p.aat"), true},
	    {missing > 0,
	     fmt::format("{} began a trace, but the trace is missing",
	                 missing == 1 ? "a process" : plural(missing, "process", "processes")),
	     again("AUTOAMP_TRACE_FILE", "/tmp/%e.%p.aat"), true},
	    {isInside, "the program ended inside its first call", doctor, true},
	    {!outcome.isOnCpu && older != program.libraries.end(),
	     fmt::format("{} is linked to {}; autoamp supports CUDA 12 and 13", shown(program.path),
	                 older != program.libraries.end() ? *older : ""),
	     "ldd " + quoted(program.path)},
	    {!isOrdinaryEnd, "the program ended before its first call", doctor},
	    {!isDlsymHooked,
	     "the library was loaded, but nothing called " + called + " through it, and --no-hook misses what dlsym finds",
	     again("AUTOAMP_HOOK_DLSYM", "1")},
	    {opens && !isLinked,
	     "the library was loaded but not called; the program contains a cuBLAS or cuDNN library name, and the calls of "
	     "a plug-in that is opened with RTLD_DEEPBIND bypass a preloaded library",
	     again("AUTOAMP_HOOK_DLSYM", "got")},
	    {outcome.isOnCpu && !isLinked,
	     "the library was loaded but not called: the program does not link a shared BLAS. Its products may run in a "
	     "static BLAS or in code of their own (Eigen, oneDNN), or a program was started without LD_PRELOAD" +
	         unsure,
	     doctor},
	    {outcome.isOnCpu,
	     fmt::format("the library was loaded but not called: the program uses {}, but did not call its matrix "
	                 "functions{}",
	                 blas, unsure),
	     doctor},
	    {!isLinked,
	     std::string(
	         "the library was loaded but not called: no cuBLAS or cuDNN call was made, or products run in other "
	         "kernels "
	         "(Triton, CUTLASS, a static cuBLAS in a plugin), or a program was started without LD_PRELOAD") +
	         unsure + later,
	     doctor},
	    {true,
	     "the library was loaded but not called: the program links cuBLAS or cuDNN but did not call it" +
	         std::string(mayChangeUser ? ", or it first became another user, who may not read autoamp's files" : "") +
	         unsure + later,
	     doctor},
	};
	const auto &row = *std::find_if(std::begin(causes), std::end(causes), [](auto &each) { return each.holds; });
	return {{row.cause, row.next}, row.isUnseen};
}

std::string meaningOf(const ReasonSum &reason)
{
	const auto meaning = reason.meaning();
	return meaning.empty() ? "" : " (" + meaning + ")";
}

// "too_small 702 (too little work)", ..., most time first.
std::string reasonsIn(const Account &account, bool eligibleOnly)
{
	std::vector<std::string> words;
	uint64_t more = 0;
	for (const auto &reason : account.reasons) {
		const auto calls = eligibleOnly ? reason.eligible.calls : reason.calls;
		if (reason.decision != "kept" || calls == 0)
			continue;
		if (words.size() < 3)
			words.push_back(fmt::format("{} {}{}", reason.reason, count(calls), meaningOf(reason)));
		else
			more += calls;
	}
	if (more > 0)
		words.push_back(fmt::format("others {}", count(more)));
	return fmt::format("{}", fmt::join(words, ", "));
}

// The text of the first note about a fallback for this reason, or the meaning of the reason.
std::string noteOf(const ReasonSum &reason, const Runs &runs)
{
	for (const auto &run : runs)
		for (const auto &note : run.notes)
			if (const auto *const row = run.row(note.row);
			    row && row->decision == reason.decision && note.kind == reason.reason && !note.text.empty())
				return ": " + note.text;
	return meaningOf(reason);
}

std::string fallbackReasons(const Account &account, const Runs &runs)
{
	std::vector<std::string> words;
	for (const auto &reason : account.reasons)
		if (reason.decision == policy::name(policy::Verdict::fallback) && reason.calls > 0)
			words.push_back(reason.calls == account.fallback.calls
			                    ? reason.reason + noteOf(reason, runs)
			                    : fmt::format("{} {}{}", reason.reason, count(reason.calls), noteOf(reason, runs)));
	return fmt::format("{}", fmt::join(words, ", "));
}

// Arguments for `report`: one file that stands for all traces, up to three files, or their folder.
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

// A row with the entry point and reason that all calls share; null if they differ.
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

std::vector<std::string> linesOf(const Runs &runs, const Account &account, const Outcome &outcome)
{
	const auto *const board = outcome.board;
	std::vector<std::string> lines;
	const auto all = count(account.eligible.calls);
	auto types = account.loweredTo;
	if (types.empty() && runs.front().rules.empty()) // the strategies of observed calls are known
		for (const auto &strategy : account.wouldLowerBy)
			types.insert(strategy == "tf32" ? strategy : dtypeOf(runs.front()));
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
		lines.push_back(
		    isLow  ? fmt::format("{}, all already 16-bit; nothing to lower", calls)
		    : only ? fmt::format("{} of {} ({}); nothing to lower", calls, only->entry, only->reason)
		           : fmt::format("{}, but no fp32 product that can be lowered: {}", calls, reasonsIn(account, false)));
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
		                            fallbackReasons(account, runs)));
	for (const auto &reason : account.reasons)
		if (reason.reason == policy::name(policy::Reason::second_copy))
			lines.push_back("not intercepted: calls to a second copy of cuBLAS (see `report --report ops`)");
	for (auto &line : shortages(account))
		lines.push_back(std::move(line));
	if (auto line = describeNotEmulated(account); !line.empty())
		lines.push_back(std::move(line));
	for (auto &line : {describeTime(account), describeShapes(account, 0)})
		if (!line.empty())
			lines.push_back(line);
	if (auto gain = describeGain(account.gain, account.isEmulated); !gain.empty())
		lines.push_back(std::move(gain));
	for (auto &line : describeKept(account))
		lines.push_back(std::move(line));
	if (const auto audits = describeAudits(runs); !audits.empty())
		lines.push_back("audited: " + audits);
	for (const auto &worry : scalerWarnings(account))
		lines.push_back(worry);
	for (const auto &gap : scalerGaps(runs))
		lines.push_back("scaling: " + gap);
	for (auto &line : describeGradients(runs))
		lines.push_back(std::move(line));
	if (board && board->failure != base::RunBoard::Failure::none)
		lines.push_back(
		    fmt::format("{} in a process: {}",
		                board->failure == base::RunBoard::Failure::off ? "autoamp stayed off" : "no trace was written",
		                shown(board->text)));
	const auto deaths = describeDeaths(outcome.ending, runs);
	lines.insert(lines.end(), deaths.begin(), deaths.end());
	if (const auto recorded = describeRecorded(runs); !recorded.empty())
		lines.push_back("recorded: " + recorded);
	for (const auto &missing : account.missing)
		lines.push_back(textOf(missing));
	if (hasLoss(account.loss))
		lines.push_back("lost: " + textOf(account.loss));

	const auto places = whereToFind(runs);
	lines.push_back(fmt::format("{} in {}", plural(runs.size(), "trace"), places));
	const auto report = fmt::format("{} report {}", invocation, places);
	lines.push_back("report: " + report);
	const auto next = chooseNext(
	    runs, account, [&](const std::vector<Change> &changes) { return commandAgain(outcome, changes); }, report);
	lines.push_back("advice: " + adviceOf(next));
	lines.push_back("next: " + next.command);
	return lines;
}

} // namespace

void concludeTraces(const Outcome &outcome)
{
	struct Written {
		std::string path;
		trace::Writer writer;
	};
	std::vector<Written> traces;
	for (const auto &path : candidates(outcome))
		if (const auto writer = trace::writerOf(path); writer && writer->run.isPartOf(outcome.id)) {
			trace::foldTail(path);
			traces.push_back({path, *writer});
		}
	// A process that replaced itself by exec has one trace per program; the exit status belongs to the last one.
	const auto isEnded = [&](const Written &each) { return static_cast<pid_t>(each.writer.pid) == outcome.ending.pid; };
	const Written *last = nullptr;
	for (const auto &each : traces)
		if (isEnded(each) && (!last || last->writer.startedNs <= each.writer.startedNs))
			last = &each;
	for (const auto &each : traces) {
		if (each.writer.run.inner != outcome.id)
			continue; // a nested `autoamp run` has already concluded it
		auto conclusion = &each == last ? concluded(outcome.ending) : trace::Conclusion();
		conclusion.processes = outcome.processes();
		trace::conclude(each.path, conclusion);
	}
}

void writeReceipt(const Outcome &outcome, std::span<const char *const> entries, Colour colour)
{
	const Terminal terminal(STDERR_FILENO, colour);
	auto collected = collect(outcome);
	findBest(collected.runs, entries);
	const auto &runs = collected.runs;
	auto account = add(runs);
	// In an MPI or Slurm job, each rank has its own `autoamp run` and trace.
	const bool isOneOfMany = !outcome.rank.empty() && std::erase_if(account.missing, [](const Missing &missing) {
		return missing.of == Missing::Of::ranks;
	});
	for (const auto &[kernel, launches] : outcome.notEmulated) { // includes processes without a trace
		// The counters cut very long names; traces have them whole.
		const auto known = account.notEmulated.lower_bound(kernel);
		const bool isCut = kernel.size() == Refusals::longestName && known != account.notEmulated.end() &&
		                   known->first.starts_with(kernel);
		auto &recorded = account.notEmulated[isCut ? known->first : kernel];
		recorded = std::max(recorded, launches);
	}
	std::string text;
	if (outcome.isEmulated || account.isEmulated)
		text += fmt::format("{}\n", terminal.paint(Style::yellow, emulatedLine));
	std::vector<std::string> lines;
	const auto ending = describeEnding(outcome.ending, runs);
	const auto recorded = describeRecorded(runs);
	if (account.all.calls == 0 && !recorded.empty()) {
		lines = {"recorded: " + recorded, fmt::format("{} in {}", plural(runs.size(), "trace"), whereToFind(runs))};
	} else if (account.all.calls == 0) {
		const auto absence = explainAbsence(outcome, collected, account, ending.empty());
		const char *const nothing =
		    outcome.isOnCpu ? "no call of a CPU BLAS was intercepted: " : "no cuBLAS or cuDNN call was intercepted: ";
		lines = {(absence.isUnseen ? "calls were not recorded: " : nothing) + absence.diagnosis.cause,
		         "next: " + absence.diagnosis.next};
		if (auto line = describeNotEmulated(account); !line.empty())
			lines.insert(lines.begin(), std::move(line));
		if (auto scalers = describeGradients(runs); !scalers.empty()) { // Python can have some without a call
			scalers.push_back(fmt::format("{} in {}", plural(runs.size(), "trace"), whereToFind(runs)));
			lines.insert(lines.begin(), scalers.begin(), scalers.end());
		}
	} else {
		lines = linesOf(runs, account, outcome);
		if (isOneOfMany)
			lines.insert(lines.begin() + 1,
			             fmt::format("calls of rank {} only; the other ranks have traces of their own", outcome.rank));
	}
	if (!ending.empty())
		lines.insert(lines.begin(), ending);
	for (const auto &line : lines) {
		const std::string name = "autoamp: ";
		const bool isCommand = line.starts_with("next: ") || line.starts_with("report: "); // to copy: in one piece
		std::string safe;
		for (size_t at = 0; at <= line.size();) { // the rule in a line has several lines
			const size_t end = std::min(line.find('\n', at), line.size());
			const auto part = (at == 0 ? name : "") + line.substr(at, end - at);
			safe += (isCommand ? shown(part) : wrap(part, terminal.width, 2)) + "\n";
			at = end + 1;
		}
		text += terminal.paint(Style::bold, "autoamp:") + safe.substr(name.size() - 1);
	}
	complain(text);
}

} // namespace autoamp::tool
