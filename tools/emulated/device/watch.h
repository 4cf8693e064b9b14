// Events of the device for a profiler; libcupti sets the only watcher. launched, created and cloned run inside the
// program's call with State::mutex held; ran runs on the worker that did the work.
#pragma once

#include "device.h"

#include <atomic>

namespace emulated {

// The watcher's data about a launch: its number, and bits for the records that the watcher wants.
struct Launched {
	uint32_t correlation = 0, wanted = 0;
};

// One finished kernel, copy or fill; times: CLOCK_REALTIME, ns.
struct Work {
	cudaGraphNodeType type;
	const char *name;
	int device;
	unsigned long long context, stream;
	Launched launched;
	uint64_t node; // number of its graph node; 0: not launched by a graph
	uint64_t start, end;
};

struct Watcher {
	Launched (*launched)(cudaGraphNodeType type, bool byDriver);
	void (*ran)(const Work &work);
	void (*created)(cudaGraphNode_t node);
	void (*cloned)(cudaGraphNode_t node, cudaGraphNode_t original);
};
EMULATED_EXPORT extern std::atomic<const Watcher *> watcher; // null: no watcher
EMULATED_EXPORT uint64_t nodeNumber(cudaGraphNode_t node);

} // namespace emulated
