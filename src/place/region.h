// Regions: settings for a part of a program, opened by the program (inject/autoamp.h), and its NVTX ranges. A range
// that a rule names takes part in decisions; the others only name rows of the trace. Each thread has its own regions. A
// call only reads the thread block. Any thread.
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
	std::string key; // policies with equal keys make equal decisions
};

// All open regions and ranges of a call, merged. Never changed or freed; at most 2^regionBits.
struct Region {
	const Policy *policy = nullptr;
	uint64_t patterns = 0;      // bit i: an open region matches Rules::regionPatterns[i]
	const char *name = nullptr; // name of the innermost named region; null: none
	// The innermost NVTX range inside it that no rule names; null: none. Then the ids of the same region without that
	// range, and with `(more ranges)` in its place.
	const char *range = nullptr;
	uint32_t decisive = 0, unnamed = 0;
};
const Region &regionAt(uint32_t id);

// The configuration, read at the first call or region of the process. Null: off (AUTOAMP_ENABLED=0, or an invalid
// variable, which stderr reports).
const Policy *processPolicy();

extern std::atomic<unsigned> regionEpoch;
void renewRegion(); // updates the region of the calling thread

// The id of the region of calls that the calling thread makes now.
[[gnu::always_inline]] inline uint32_t currentRegion()
{
	const front::ThreadBlock &block = autoamp_front_thread;
	if (__builtin_expect(block.epoch != regionEpoch.load(std::memory_order_relaxed), 0))
		renewRegion();
	return block.region;
}
constexpr unsigned regionBits = 16;

// ---- for the NVTX receiver

// A name and its users: rules, the capture range, the trace. Never freed.
struct RangeName {
	uint64_t patterns;
	const char *text; // null: it names no rows
	bool isCapture;
};
bool areRangesUsed();                                  // by rules with a region, the capture range or the trace
const RangeName *findRangeName(std::string_view text); // null: it has no user
// Ranges of the calling thread in a domain (from 1). pushRange() returns the number of ranges that were open in it.
// popRange() returns the number that are left, or -1 if none was open.
int pushRange(uint64_t domain, const RangeName *name);
int popRange(uint64_t domain);
// Ranges of the process, for all threads. The returned id ends the range, on any thread.
uint64_t startRange(uint64_t domain, const RangeName *name);
void endRange(uint64_t id);
void endRanges(uint64_t domain); // ends the ranges of the calling thread and of the process in the domain
int receiveRanges(const void *tables);

extern const front::Regions regionCalls;

} // namespace autoamp::core
