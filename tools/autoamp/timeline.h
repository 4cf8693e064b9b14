// All calls, kernels and scaler events of some runs on one clock, for exports and the HTML report. Main thread.
// Streamed from the files: memory use does not depend on their number.
#pragma once

#include "tools/autoamp/traces.h"

#include <cstdint>
#include <functional>
#include <string_view>

namespace autoamp::tool {

struct Item {
	enum Kind : uint8_t { call, kernel, scale } kind;
	size_t run;
	uint32_t thread, device, stream; // thread: for calls; device and stream: for kernels
	int64_t startNs, durationNs;     // since the start of the first run; meaningless for kernels of an emulated device
	const trace::RowInfo *row;       // null: no intercepted call
	const std::string *name;         // the kernel's name
	uint64_t number;                 // number of the call, or of the call that launched the kernel, in its run; 0: none
	bool captured, isOurs, isMemory;
	const trace::ScalerInfo *scaler;
};

// Start times in ns since the earliest start. Runs on one host are aligned by their common clock, hosts by their time
// of day.
std::vector<int64_t> startsOf(const Runs &runs);
// Visits run after run: first its scaler events, then calls and kernels in the order of the file.
void forEachItem(const Runs &runs, const char *what, const std::function<void(const Item &)> &visit);
// A short description of a run: rank 3, host, pid 12.
std::string nameOf(const trace::Trace &run);

} // namespace autoamp::tool
