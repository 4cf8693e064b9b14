// Traces that a run or job wrote, or should have written, but that are not among those read. Values; main thread.
#pragma once

#include "src/trace/read/trace.h"

#include <string>
#include <vector>

namespace autoamp::tool {

struct Missing {
	enum class Of { processes, ranks, parents } of;
	std::string group;                // run id or job name; "": unknown
	uint64_t expected = 0, there = 0; // traces that should exist; traces that were read
	bool isLeast = false;             // `expected` is a lower bound
	std::vector<uint64_t> numbers;    // the first missing process numbers, ranks or pids
};

// One value for each run, job and parent with missing traces; complete runs have none.
std::vector<Missing> missingTraces(const std::vector<trace::Trace> &runs);
std::string textOf(const Missing &missing);

} // namespace autoamp::tool
