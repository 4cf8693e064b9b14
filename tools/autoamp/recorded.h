// What of the runs was recorded at all, where a capture range, a delay or a duration left calls out. Values; main
// thread.
#pragma once

#include "src/policy/capture_range.h"
#include "src/trace/reader.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace autoamp::tool {

struct Recorded {
	policy::CaptureRange range;
	std::string text;                // the range as it was typed; "": none
	double delay = NAN, limit = NAN; // seconds; NaN: none
	uint64_t calls = 0, outside = 0; // recorded, and not
	uint64_t begun = 0;              // how often the range was
	std::string unseen;              // why it could not begin, as far as the process knew
	bool hasStaticRuntime = false;   // whose cudaProfilerStart is not intercepted; known where the program's file is
};

std::optional<Recorded> recordedOf(const trace::Trace &run); // nothing: all of it
// "calls 100 to 200 of 5,000 (capture range calls:100:200)", of all runs together; "": all was recorded.
std::string describeRecorded(const std::vector<trace::Trace> &runs);
// Why nothing was; "": something was.
std::string whyNothing(const Recorded &recorded);

} // namespace autoamp::tool
