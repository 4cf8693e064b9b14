// The open regions and NVTX ranges of a thread, and the merged regions of its calls. All functions use those of the
// calling thread.
#pragma once

#include "src/place/region/shared.h"

#include <string>

namespace autoamp::core {

void renewRegion(); // updates the regions of the calling thread

// The id of the region of calls on devices of this type that the calling thread makes now.
[[gnu::always_inline]] inline uint32_t currentRegion(DeviceType type)
{
	const front::ThreadBlock &block = autoamp_front_thread;
	if (__builtin_expect(block.epoch != regionEpoch.load(std::memory_order_relaxed), 0))
		renewRegion();
	return block.region[static_cast<unsigned>(type)];
}
struct Frame {
	uint64_t domain; // domain whose pop ends it; 0: autoamp.h
	// No policy: an NVTX range, or a region of the other type.
	PerDeviceType<Region> own;
	bool isRange;     // an NVTX range that has a user
	bool isCapture;   // an NVTX range that matches the capture range
	uint64_t ticket;  // ticket of a region shared by all threads; 0: not shared
	unsigned above;   // number of open ranges of the domain without a user that were opened after this frame
	size_t number;    // number of a region, with which it can be ended
	bool setsWeights; // a region that sets the weights of CUDA calls
	// pileUp() and settle() set the members below.
	size_t below;              // 1 + index of the next lower frame of the domain; 0: none
	int level;                 // number of ranges of the domain that are open below
	PerDeviceType<Region> all; // merged with all frames below
	PerDeviceType<uint32_t> ids;
	unsigned epoch; // epoch of `ids`; if it differs from regionEpoch, they are out of date

	int height() const { return level + static_cast<int>(above) + isRange; }
};

struct Memo {
	size_t hash = 0; // of the key
	std::string key;
	PerDeviceType<const Policy *> policies = {}; // null: not changed
	const RangeName *name = nullptr;
	bool isShared = false, isLimited = false; // isLimited: there are too many policies
};

struct Stack {
	std::vector<Frame> frames;
	std::unordered_map<uint64_t, size_t> tops; // by domain: 1 + index of its innermost frame
	Memo memos[16];                            // of recently pushed regions
	unsigned oldestMemo = 0;
	uint64_t weightsRegion = 0; // number of the outermost frame that sets weights
	std::string key, error;
};

Stack *knownStack(); // null: the thread has opened none

// The number of the outermost open region of the calling thread that sets the weights of CUDA calls, unique in the
// process; 0: there is none. Regions of other threads do not count.
inline uint64_t weightsRegion()
{
	const auto *const stack = static_cast<const Stack *>(autoamp_front_thread.regions);
	return stack ? stack->weightsRegion : 0;
}
// Called after such a region has ended, also with its thread, on this thread and without a lock. Null: not called.
extern std::atomic<void (*)(uint64_t region)> onWeightsRegionEnd;
Stack *thisStack(); // null: no memory
void watchForks();  // once in the process, before anything is shared

constexpr size_t depthLimit = 1u << 16;
void push(Stack &stack, const Frame &frame);
void remove(Stack &stack, const Frame *frame);
Frame *innermost(Stack &stack, uint64_t domain); // null: the domain has none open
int levelOf(Stack &stack, uint64_t domain);      // ranges that are open in it

} // namespace autoamp::core
