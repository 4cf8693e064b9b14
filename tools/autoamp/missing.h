// Traces that a run or job wrote, or should have, and that are not among those read. Values; main thread.
#pragma once

#include "src/trace/reader.h"

#include <string>
#include <vector>

namespace autoamp::tool {

struct Missing {
	enum class Of { processes, ranks, parents } of;
	std::string group;                // run id, or the job's name; "": unknown
	uint64_t expected = 0, there = 0; // expected: at least
	bool isLeast = false;             // more traces than `expected` can have existed
	std::vector<uint64_t> numbers;    // the first of those that are not there: process numbers, ranks or pids
};

// One value for each run, job and parent with missing traces; a run whose traces are all there has none.
std::vector<Missing> missingTraces(const std::vector<trace::Trace> &runs);
std::string describe(const Missing &missing);

} // namespace autoamp::tool
