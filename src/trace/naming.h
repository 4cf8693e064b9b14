// Names and folders of trace files, and removal of old traces. Any thread. Makes system calls, but uses no global
// state: all inputs are parameters.
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

// Expands `pattern` into `out`. Returns null, or the error in the pattern. counter: the value of %n. In a value of %e,
// %h, %q{VAR} and %rank%, a slash, a control character and a leading dot become `_`: only slashes of the pattern itself
// separate folders.
const char *expandName(const char *pattern, const NameParts &parts, unsigned counter, char *out, size_t size);

// Writes the program's name to `out`: the last component of argv[0], or the script or `-m` module of an interpreter.
// arguments: in the format of /proc/self/cmdline.
void programName(const char *arguments, size_t size, char *out, size_t outSize);

// The rank in an MPI or Slurm job, and the number of ranks; "" outside of a job, or if no variable contains it.
const char *jobRank(Lookup lookup);
const char *jobRanks(Lookup lookup);
// The job id of the batch system or MPI; "" outside of a job.
const char *jobName(Lookup lookup);

// Variable in which `autoamp run` passes its id to the processes of its run: INNER:OUTER in hexadecimal. Outside of a
// run, all ids are zero.
constexpr const char *kRunVariable = "_AUTOAMP_RUN_ID";
// The working folder of `autoamp run`, a line break, and the words of its program as a shell reads them.
constexpr const char *kCommandVariable = "_AUTOAMP_RUN_COMMAND";
RunIds runIds(Lookup lookup);

// Creates the folders (mode 0700) and a new file (mode 0600). If the name exists, tries the next %n, or else `.1`,
// `.2`, … before the suffix. Returns the descriptor, or -errno. `out`: the last name tried. `problem`: the error in a
// bad pattern.
int createFile(const char *pattern, const NameParts &parts, char *out, size_t size, const char **problem);

// A number that all processes of one job share: the hash of the batch or MPI job id, or else of the process group. A
// shell creates a process group for a command line, and a script shares its group with its children.
uint64_t jobOf(Lookup lookup);

// Removes the traces of the oldest jobs from a folder until at most `files` and `bytes` are left. Counts and removes
// only traces with default names (%e.%t.%p.aat), and only whole jobs that have ended: no trace of the job is open or
// was written in the day before `now` (seconds since the epoch). Runs at most once an hour: the file .pruned has the
// time of the last run.
size_t prune(const char *folder, size_t files, uint64_t bytes, int64_t now);

} // namespace autoamp::trace
