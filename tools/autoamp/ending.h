// Describes how a program ended, from its wait status and its traces. Values; main thread.
#pragma once

#include "src/trace/read/trace.h"

#include <string>
#include <vector>

namespace autoamp::tool {

struct Ending {
	pid_t pid = 0;
	int status = 0; // as in a shell: 128+N for a signal
	int signal = 0;
	bool isCoreDumped = false;
	int received = 0;      // signal that requested the end of this process meanwhile; 0: none
	uint64_t oomKills = 0; // processes that the kernel killed in this cgroup during the run because memory ran out
};

// Number of processes in this process's cgroup and its children that the kernel killed because memory ran out; 0 if the
// system does not count them.
uint64_t oomKills();

// The value for the trace headers of the process that ended.
trace::Conclusion concluded(const Ending &ending);

// The end of the launched program. Empty if its status is 0 and, where it has a trace, its exit handlers ran.
std::string describeEnding(const Ending &ending, const std::vector<trace::Trace> &runs);
// The end of a trace's process in a few words: "exit 0", "ended by SIGINT (signal 2) while inside cublasSgemm_v2".
std::string endingOf(const trace::Trace &run);
// The same for each other process that died in a call. autoamp does not know the signal: only the parent receives it.
std::vector<std::string> describeDeaths(const Ending &ending, const std::vector<trace::Trace> &runs);

} // namespace autoamp::tool
