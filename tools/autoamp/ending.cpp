#include "tools/autoamp/ending.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>

namespace autoamp::tool {

namespace {

struct Facts {
	const Ending &ending;
	const trace::Trace *trace; // of the last program that the process ran; null: it made no recorded call
	bool isReplaced;           // an earlier program of the same process has a trace as well
};

std::string nameOf(int signal)
{
	const char *name = ::sigabbrev_np(signal);
	return name ? fmt::format("SIG{} (signal {})", name, signal) : fmt::format("signal {}", signal);
}

// Other signals come from outside or end the program by request: the call in flight has nothing to do with them.
bool isDeathInCall(int signal)
{
	static constexpr int deaths[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGKILL};
	return std::find(std::begin(deaths), std::end(deaths), signal) != std::end(deaths);
}

// A shell ends with 128+N if its program was ended by signal N; 0: the status does not mean that.
int signalInStatus(const Ending &ending)
{
	const int signal = ending.status - 128;
	return ending.signal == 0 && signal > 0 && ::sigabbrev_np(signal) ? signal : 0;
}

bool hasNoExit(const trace::Trace &run)
{
	return run.ended == "killed" || run.ended == "no exit seen";
}

std::string sourceOf(const Ending &ending)
{
	return ending.signal == SIGKILL ? ": sent by another process, or by the kernel when memory runs out"
	       : ending.isCoreDumped    ? ", core dumped"
	                                : "";
}

// Every way to end, with the evidence for it. The first row that holds describes the end.
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
	     return fmt::format("the program ended with status {} without its exit handlers: by _exit, or as another "
	                        "program after exec",
	                        facts.ending.status);
     }},
    {[](const Facts &facts) { return facts.isReplaced; },
     [](const Facts &facts) {
	     return fmt::format("the program replaced itself by exec; the last one exited with status {}",
	                        facts.ending.status);
     }},
    {[](const Facts &facts) { return facts.ending.status != 0; },
     [](const Facts &facts) { return fmt::format("the program exited with status {}", facts.ending.status); }},
};

} // namespace

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
	const int known = ending.signal ? ending.signal : signalInStatus(ending); // of its group, as Ctrl-C is
	for (const auto &run : runs)
		if (static_cast<pid_t>(run.pid) != ending.pid && !run.diedInside.empty() && (!known || isDeathInCall(known)))
			lines.push_back(fmt::format("pid {} ended inside {}, without an exit", run.pid, run.diedInside));
	return lines;
}

} // namespace autoamp::tool
