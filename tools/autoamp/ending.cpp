#include "tools/autoamp/ending.h"

#include "tools/autoamp/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

namespace autoamp::tool {

namespace {

struct Facts {
	const Ending &ending;
	const trace::Trace *trace; // the last program of the process; null: it made no recorded call
	bool isReplaced;           // an earlier program of the same process has a trace as well
};

// The name without SIG, null for other numbers. sigabbrev_np needs glibc 2.32.
const char *abbreviation(int signal)
{
	static constexpr struct {
		int number;
		const char *name;
	} signals[] = {{SIGHUP, "HUP"},       {SIGINT, "INT"},   {SIGQUIT, "QUIT"},   {SIGILL, "ILL"},
	               {SIGTRAP, "TRAP"},     {SIGABRT, "ABRT"}, {SIGBUS, "BUS"},     {SIGFPE, "FPE"},
	               {SIGKILL, "KILL"},     {SIGUSR1, "USR1"}, {SIGSEGV, "SEGV"},   {SIGUSR2, "USR2"},
	               {SIGPIPE, "PIPE"},     {SIGALRM, "ALRM"}, {SIGTERM, "TERM"},   {SIGCHLD, "CHLD"},
	               {SIGCONT, "CONT"},     {SIGSTOP, "STOP"}, {SIGTSTP, "TSTP"},   {SIGTTIN, "TTIN"},
	               {SIGTTOU, "TTOU"},     {SIGURG, "URG"},   {SIGXCPU, "XCPU"},   {SIGXFSZ, "XFSZ"},
	               {SIGVTALRM, "VTALRM"}, {SIGPROF, "PROF"}, {SIGWINCH, "WINCH"}, {SIGPOLL, "POLL"},
	               {SIGSTKFLT, "STKFLT"}, {SIGPWR, "PWR"},   {SIGSYS, "SYS"}};
	const auto *const found = std::find_if(std::begin(signals), std::end(signals),
	                                       [signal](const auto &each) { return each.number == signal; });
	return found == std::end(signals) ? nullptr : found->name;
}

std::string nameOf(int signal)
{
	const char *name = abbreviation(signal);
	return name ? fmt::format("SIG{} (signal {})", name, signal) : fmt::format("signal {}", signal);
}

// Other signals come from outside or end the program by request; the call in flight is not their cause.
bool isDeathInCall(int signal)
{
	static constexpr int deaths[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGKILL};
	return std::find(std::begin(deaths), std::end(deaths), signal) != std::end(deaths);
}

// The signal N if the status is the 128+N of a shell whose program was ended by signal N; else 0.
int signalInStatus(const Ending &ending)
{
	const int signal = ending.status - 128;
	return ending.signal == 0 && signal > 0 && abbreviation(signal) ? signal : 0;
}

bool hasNoExit(const trace::Trace &run)
{
	const bool isCut = run.loss.diskFull || run.loss.sizeLimit || run.loss.unwritable || run.loss.tailMissing;
	return run.ended == "killed" || (run.ended == "no exit seen" && !isCut);
}

std::string sourceOf(const Ending &ending)
{
	if (ending.signal == SIGKILL && ending.oomKills > 0)
		return fmt::format(": memory ran out, and the kernel killed {} of this cgroup during the run",
		                   ending.oomKills == 1 ? "a process" : count(ending.oomKills) + " processes");
	return ending.signal == SIGKILL ? ": sent by another process, or by the kernel when memory runs out"
	       : ending.isCoreDumped    ? ", core dumped"
	                                : "";
}

// The end according to the header of the trace; nothing if unknown.
std::optional<Ending> endingIn(const trace::Trace &run)
{
	const auto &conclusion = run.conclusion;
	if (conclusion.ended != trace::Ended::exited && conclusion.ended != trace::Ended::signalled &&
	    conclusion.ended != trace::Ended::dumpedCore)
		return std::nullopt;
	Ending ending;
	ending.pid = static_cast<pid_t>(run.pid);
	ending.isCoreDumped = conclusion.ended == trace::Ended::dumpedCore;
	(conclusion.ended == trace::Ended::exited ? ending.status : ending.signal) = conclusion.value;
	ending.oomKills = conclusion.oomKills;
	return ending;
}

// The number that follows `name` in a file of counters; nothing if the name is absent.
std::optional<uint64_t> counterIn(const std::string &path, const std::string &name)
{
	std::ifstream file(path);
	std::string word;
	for (uint64_t value = 0; file >> word >> value;)
		if (word == name)
			return value;
	return std::nullopt;
}

// All kinds of end, with their evidence. The first matching row describes the end.
const struct {
	bool (*holds)(const Facts &);
	std::string (*text)(const Facts &);
} endings[] = {
    {[](const Facts &facts) {
	     return isDeathInCall(facts.ending.signal) && facts.trace && !facts.trace->diedInside.empty();
     },
     [](const Facts &facts) {
	     return fmt::format("pid {} died inside {}: {}{}", facts.ending.pid, facts.trace->diedInside,
	                        nameOf(facts.ending.signal), sourceOf(facts.ending));
     }},
    {[](const Facts &facts) { return facts.ending.signal != 0; },
     [](const Facts &facts) {
	     return fmt::format("the program was ended by {}{}", nameOf(facts.ending.signal), sourceOf(facts.ending));
     }},
    {[](const Facts &facts) { return signalInStatus(facts.ending) != 0; },
     [](const Facts &facts) {
	     return fmt::format("the program exited with status {}, which a shell returns after {}", facts.ending.status,
	                        nameOf(signalInStatus(facts.ending)));
     }},
    {[](const Facts &facts) { return facts.trace && hasNoExit(*facts.trace); },
     [](const Facts &facts) {
	     return fmt::format("the program ended with status {} and ran no exit handlers: it called _exit or exec",
	                        facts.ending.status);
     }},
    {[](const Facts &facts) { return facts.isReplaced; },
     [](const Facts &facts) {
	     return fmt::format("the program replaced itself by exec; the last program exited with status {}",
	                        facts.ending.status);
     }},
    {[](const Facts &facts) { return facts.ending.status != 0; },
     [](const Facts &facts) { return fmt::format("the program exited with status {}", facts.ending.status); }},
};

} // namespace

uint64_t oomKills()
{
	// Lines are ID:CONTROLLERS:PATH; version 2 has no controllers. In a container the path may begin outside the
	// container.
	std::ifstream groups("/proc/self/cgroup");
	for (std::string line; std::getline(groups, line);) {
		const auto second = line.find(':', line.find(':') + 1);
		const auto controllers = line.substr(0, second).substr(line.find(':') + 1);
		if (second == line.npos || (!controllers.empty() && controllers != "memory"))
			continue;
		const auto root = "/sys/fs/cgroup" + (controllers.empty() ? "" : "/" + controllers);
		const auto *const file = controllers.empty() ? "/memory.events" : "/memory.oom_control";
		for (auto path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
			if (const auto kills = counterIn(root + path + file, "oom_kill"))
				return *kills;
			if (path.find('/') == path.npos)
				break;
		}
	}
	return 0;
}

trace::Conclusion concluded(const Ending &ending)
{
	trace::Conclusion conclusion;
	conclusion.ended = ending.isCoreDumped  ? trace::Ended::dumpedCore
	                   : ending.signal != 0 ? trace::Ended::signalled
	                                        : trace::Ended::exited;
	conclusion.value = ending.signal ? ending.signal : ending.status;
	conclusion.oomKills = static_cast<uint32_t>(ending.oomKills);
	return conclusion;
}

std::string endingOf(const trace::Trace &run)
{
	const auto ending = endingIn(run);
	const bool isInside = !run.diedInside.empty();
	if (!ending || !hasNoExit(run))
		return isInside ? fmt::format("{}, died inside {}", run.ended, run.diedInside) : run.ended;
	if (ending->signal == 0)
		return fmt::format("exit {}, no exit handlers ran", ending->status);
	if (isInside && isDeathInCall(ending->signal))
		return fmt::format("died inside {}: {}{}", run.diedInside, nameOf(ending->signal), sourceOf(*ending));
	return fmt::format("ended by {}{}{}", nameOf(ending->signal), sourceOf(*ending),
	                   isInside ? " while inside " + run.diedInside : "");
}

std::string describeEnding(const Ending &ending, const std::vector<trace::Trace> &runs)
{
	Facts facts = {ending, nullptr, false};
	for (const auto &run : runs)
		if (static_cast<pid_t>(run.pid) == ending.pid) {
			facts.isReplaced = facts.trace != nullptr;
			if (!facts.trace || facts.trace->startedNs <= run.startedNs)
				facts.trace = &run;
		}
	for (const auto &row : endings)
		if (row.holds(facts))
			return row.text(facts);
	return {};
}

std::vector<std::string> describeDeaths(const Ending &ending, const std::vector<trace::Trace> &runs)
{
	std::vector<std::string> lines;
	const int known = ending.signal ? ending.signal : signalInStatus(ending); // a signal of the whole process group,
	                                                                          // such as Ctrl-C
	for (const auto &run : runs)
		if (static_cast<pid_t>(run.pid) != ending.pid && !run.diedInside.empty() && (!known || isDeathInCall(known)))
			lines.push_back(fmt::format("pid {} ended inside {} and did not exit normally", run.pid, run.diedInside));
	return lines;
}

} // namespace autoamp::tool
