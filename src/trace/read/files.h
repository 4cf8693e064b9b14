// Trace files as a whole: their writer, their tail, and the files of one run. A damaged file cannot crash these
// functions. Any thread.
#pragma once

#include "src/trace/format.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autoamp::trace {

// Moves the content of the tail to the trace, if the trace has a tail and its writer has ended. Returns whether the
// trace needs no tail.
bool foldTail(const std::string &path);

// Adds the facts of `autoamp run` to the header of a trace. Returns false if the trace is still being written or needs
// its tail.
bool conclude(const std::string &path, const Conclusion &conclusion);

// Returns whether a living process writes this trace.
bool isBeingWritten(const std::string &path);

// The process that wrote a trace; only the header is read.
struct Writer {
	uint32_t pid = 0;
	int64_t startedNs = 0;
	RunIds run;
};

std::optional<Writer> writerOf(const std::string &path);
// Only the ids; empty: not a trace.
std::optional<RunIds> runIdsOf(const std::string &path);

// FILE and the files that other processes of its run wrote next to it because it existed: name.aat, name.1.aat,
// name.2.aat … A file that is not a readable trace may be part of any run: it is included.
std::vector<std::string> family(const std::string &path);

} // namespace autoamp::trace
