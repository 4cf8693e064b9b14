// How a trace file gets its name and its place, and how old ones make room.
// Any thread; makes system calls, uses no global state: everything it depends on is passed in.
#pragma once

#include "src/trace/format.h"

#include <cstddef>
#include <cstdint>

namespace autoamp::trace {

using Lookup = const char *(*)(const char *);

struct NameParts {
	const char *program = "", *host = "", *rank = ""; // rank "": not part of a parallel job
	uint32_t pid = 0;
	int64_t time = 0; // seconds since the epoch
	Lookup lookup = nullptr;
};

// Writes the pattern's name to `out`. Null, or what is wrong with the pattern. counter: what %n stands for. In a value
// of %e, %h, %q{VAR} and %rank%, a slash, a control character and a leading dot become `_`: only the pattern's own
// slashes name folders.
const char *expandName(const char *pattern, const NameParts &parts, unsigned counter, char *out, size_t size);

// `out` gets the program's name: argv[0]'s last component, or the script's (or `-m` module's) for an interpreter.
// arguments: as /proc/self/cmdline has them.
void programName(const char *arguments, size_t size, char *out, size_t outSize);

// The rank in an MPI or Slurm job, and the number of ranks; "" outside, or where the variables lack it.
const char *jobRank(Lookup lookup);
const char *jobRanks(Lookup lookup);
// The id that a batch system or MPI gives to the job, "" outside.
const char *jobName(Lookup lookup);

// Where `autoamp run` passes its id to the processes of its run: INNER:OUTER in hexadecimal. All zero outside of one.
constexpr const char *kRunVariable = "_AUTOAMP_RUN_ID";
RunIds runIds(Lookup lookup);

// Where `autoamp run` passes the file that counts the processes of the run: PID:DESCRIPTOR of a memfd named kCounter
// and the id. It exists while `autoamp run` does.
constexpr const char *kCounterVariable = "_AUTOAMP_RUN_COUNTER", *kCounter = "autoamp-%016llx";
// Counts this process and returns its number, from 1; 0: there is no counter here.
uint32_t joinRun(Lookup lookup, uint64_t run);

// Makes the folders (mode 0700) and a file (0600) that did not exist before: where it exists, the next %n, else `.1`,
// `.2`, … before the suffix. The descriptor, or -errno; `out` is the name tried last; `problem` says what is wrong with
// a bad pattern.
int createFile(const char *pattern, const NameParts &parts, char *out, size_t size, const char **problem);

// A number that all processes of one job share: the hash of the batch or MPI job id, or else of the process group. A
// shell makes a process group for a command line, and a script shares its group with its children.
uint64_t jobOf(Lookup lookup);

// Removes the oldest jobs' traces from a folder until at most `files` and `bytes` are left. Only traces with default
// names (%e.%t.%p.aat) are counted and removed, and only whole jobs that ended: none of whose traces was written on the
// day before `now` (seconds since the epoch) or is still open. Looks at most once an hour: the file .pruned has that
// time.
size_t prune(const char *folder, size_t files, uint64_t bytes, int64_t now);

} // namespace autoamp::trace
