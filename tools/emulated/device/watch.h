// What a profiler is told of the device; libcupti sets the one watcher. launched, created and cloned are called inside
// the program's own call, with State::mutex held, ran by whichever worker did the work.
#pragma once

#include "device.h"

#include <atomic>

namespace emulated {

// What the watcher keeps of a launch: its number, and what of it is to be told, in the watcher's own bits.
struct Launched {
	uint32_t correlation = 0, wanted = 0;
};

// One kernel, copy or fill that has run; times: CLOCK_REALTIME, ns.
struct Work {
	cudaGraphNodeType type;
	const char *name;
	int device;
	unsigned long long context, stream;
	Launched launched;
	uint64_t node; // of a graph; 0: launched by itself
	uint64_t start, end;
};

struct Watcher {
	Launched (*launched)(cudaGraphNodeType type, bool byDriver);
	void (*ran)(const Work &work);
	void (*created)(cudaGraphNode_t node);
	void (*cloned)(cudaGraphNode_t node, cudaGraphNode_t original);
};
EMULATED_EXPORT extern std::atomic<const Watcher *> watcher; // null: nobody watches
EMULATED_EXPORT uint64_t nodeNumber(cudaGraphNode_t node);

} // namespace emulated
