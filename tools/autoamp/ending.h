// How a program ended, in words, from its wait status and from what its trace shows. Values; main thread.
#pragma once

#include "src/trace/reader.h"

#include <string>
#include <vector>

namespace autoamp::tool {

struct Ending {
	pid_t pid = 0;
	int status = 0; // as a shell shows it: 128+N for a signal
	int signal = 0;
	bool isCoreDumped = false;
	uint64_t oomKills = 0; // processes that the kernel killed in this cgroup meanwhile, because memory ran out
};

// Processes of this process's cgroup, and of those inside it, that the kernel killed because memory ran out; 0 if that
// is not counted here.
uint64_t oomKills();

// For the header of the traces of the process that ended.
trace::Conclusion concluded(const Ending &ending);

// The end of the program itself; "": it exited with status 0, by way of its exit handlers if it has a trace.
std::string describeEnding(const Ending &ending, const std::vector<trace::Trace> &runs);
// The end of a trace's process in a few words: "exit 0", "ended by SIGINT (signal 2) while inside cublasSgemm_v2".
std::string endingOf(const trace::Trace &run);
// The same for each other process that died in a call. Its parent knows the signal; autoamp does not.
std::vector<std::string> describeDeaths(const Ending &ending, const std::vector<trace::Trace> &runs);

} // namespace autoamp::tool
