#include "refusals.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/shm.h>

namespace emulated {

namespace {

// Must match the layout in tools/autoamp/refusals.cpp. Every process of the run attaches the segment, which needs no
// descriptor. Writes to it cannot fail or raise a signal, and the counters survive a killed process.
struct Slot {
	std::atomic<uint32_t> state; // 0 free, 1 a process writes the name, 2 complete
	uint32_t reserved;
	std::atomic<uint64_t> launches;
	char name[8176]; // zero-terminated, cut if too long
};
constexpr size_t slotCount = 2048;
static_assert(sizeof(Slot) == 8192 && std::atomic<uint64_t>::is_always_lock_free);

Slot *mapSlots()
{
	const char *const segment = getenv("_AUTOAMP_EMU_REFUSALS");
	if (!segment)
		return nullptr;
	const int id = atoi(segment);
	shmid_ds facts;
	// The run may have ended, and its identifier may be in use again.
	if (shmctl(id, IPC_STAT, &facts) || facts.shm_segsz != slotCount * sizeof(Slot))
		return nullptr;
	void *const mapped = shmat(id, nullptr, 0);
	return mapped == reinterpret_cast<void *>(-1) ? nullptr : static_cast<Slot *>(mapped);
}

} // namespace

void countRefusal(const char *name, unsigned long launches)
{
	if (!*name)
		name = "(no name)";
	static Slot *const slots = mapSlots();
	for (size_t i = 0; slots && i < slotCount; i++) {
		Slot &slot = slots[i];
		uint32_t state = 0;
		if (slot.state.compare_exchange_strong(state, 1)) {
			snprintf(slot.name, sizeof slot.name, "%s", name);
			slot.state = state = 2;
		}
		// A slot that another process is writing is skipped. The name may then have two slots, which the reader adds.
		if (state == 2 && strncmp(slot.name, name, sizeof slot.name - 1) == 0) {
			slot.launches += launches;
			return;
		}
	}
}

} // namespace emulated
