// Regions: settings for a part of a program, opened by the program (inject/autoamp.h), and its NVTX ranges. A range
// that a rule names takes part in decisions; the others only name rows of the trace. A thread's are its own; a call
// costs a look at the thread block. Any thread.
#pragma once

#include "inject/front.h"
#include "src/policy/decide.h"

#include <atomic>
#include <cstdint>
#include <string_view>

namespace autoamp::core {

struct Policy {
	policy::Options options;
	policy::State state;
	std::string key; // equal ones decide alike
};

// What calls run in, all taken together. Never changes or goes; a few thousand at most.
struct Region {
	const Policy *policy = nullptr;
	uint64_t patterns = 0;      // bit: the pattern of a rule that an open region matches
	const char *name = nullptr; // of the innermost that has one; null: none
	// The innermost NVTX range inside it that no rule names; null: none. The regions without it, and with
	// `(more ranges)` in its place.
	const char *range = nullptr;
	uint32_t decisive = 0, unnamed = 0;
};
const Region &regionAt(uint32_t id);

// The configuration, read at the first call or region of the process. Null: off (AUTOAMP_ENABLED=0, or a variable is
// wrong and stderr says which).
const Policy *processPolicy();

extern std::atomic<unsigned> regionEpoch;
void renewRegion(); // of the calling thread

// Of the region that the calling thread's calls run in now.
[[gnu::always_inline]] inline uint32_t currentRegion()
{
	const front::ThreadBlock &block = autoamp_front_thread;
	if (__builtin_expect(block.epoch != regionEpoch.load(std::memory_order_relaxed), 0))
		renewRegion();
	return block.region;
}
constexpr unsigned regionBits = 16;

// ---- for the NVTX receiver

// A name and its users: rules, the capture range, the trace. Never goes.
struct RangeName {
	uint64_t patterns;
	const char *text; // null: it names no rows
	bool isCapture;
};
bool areRangesUsed();                                  // by rules that name a region, a capture range or a trace
const RangeName *findRangeName(std::string_view text); // null: it has no user
// The calling thread's ranges of a domain (from 1). How many were open there before; popRange: -1: none, else how many
// are left.
int pushRange(uint64_t domain, const RangeName *name);
int popRange(uint64_t domain);
// Ranges of the process: of all threads. The answer ends it, on whatever thread.
uint64_t startRange(uint64_t domain, const RangeName *name);
void endRange(uint64_t id);
void endRanges(uint64_t domain); // that the calling thread, or the process, has open there
int receiveRanges(const void *tables);

extern const front::Regions regionCalls;

} // namespace autoamp::core
