// Every single thing that happened in some runs, on one clock: what exports write and the HTML report draws. Main
// thread. Streamed from the files: memory does not grow with their number.
#pragma once

#include "tools/autoamp/traces.h"

#include <cstdint>
#include <functional>
#include <string_view>

namespace autoamp::tool {

struct Item {
	enum Kind : uint8_t { call, kernel, scale } kind;
	size_t run;
	uint32_t thread, device, stream; // thread: of a call; the others of a kernel
	int64_t startNs, durationNs;     // since the first run began; of a kernel of an emulated device they mean nothing
	const trace::RowInfo *row;       // null: of no intercepted call
	const std::string *name;         // of a kernel
	uint64_t number;                 // the call's number in its run, a kernel's too; 0: none
	bool captured, isOurs, isMemory;
	const trace::ScalerInfo *scaler;
};

// ns since the earliest of them began. Runs on one host are aligned by the clock that they share, hosts by their time
// of day.
std::vector<int64_t> startsOf(const Runs &runs);
// Calls and kernels in the order of their files, run after run; the scaler's events of a run come first.
void forEachItem(const Runs &runs, const char *what, const std::function<void(const Item &)> &visit);
// A run in words: rank 3, host, pid 12.
std::string nameOf(const trace::Trace &run);

} // namespace autoamp::tool
