// The recorded part of runs with a capture range, a delay or a duration. Values; main thread.
#pragma once

#include "src/config/capture_range.h"
#include "src/trace/read/trace.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace autoamp::tool {

struct Recorded {
	policy::CaptureRange range;
	std::string text;                // the capture range as typed; "": none
	double delay = NAN, limit = NAN; // seconds; NaN: none
	uint64_t calls = 0, outside = 0; // calls inside and outside the recorded part
	uint64_t begun = 0;              // number of times that the range began
	std::string unseen;              // the reason why the range could not begin, if the process knew it
	bool hasStaticRuntime = false;   // cudaProfilerStart is then not intercepted; false if the program's file is
	                                 // missing
};

std::optional<Recorded> recordedOf(const trace::Trace &run); // none: everything was recorded
// "calls 100 to 200 of 5,000 (capture range calls:100:200)", for all runs together; "": everything was recorded.
std::string describeRecorded(const std::vector<trace::Trace> &runs);
// The reason why no call was recorded; "": at least one was.
std::string whyNothing(const Recorded &recorded);

} // namespace autoamp::tool
