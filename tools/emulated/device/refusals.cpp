#include "refusals.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace emulated {

namespace {

// Must match the layout in tools/autoamp/refusals.cpp. Every process of the run maps the file. Writes to a mapping
// cannot fail or raise a signal, and the counters survive a killed process.
struct Slot {
	std::atomic<uint32_t> state; // 0 free, 1 a process writes the name, 2 complete
	uint32_t reserved;
	std::atomic<uint64_t> launches;
	char name[1008]; // zero-terminated, cut if too long
};
constexpr size_t slotCount = 128;
static_assert(sizeof(Slot) == 1024 && std::atomic<uint64_t>::is_always_lock_free);

Slot *mapSlots()
{
	const char *const path = getenv("_AUTOAMP_EMU_REFUSALS");
	char found[64] = {};
	// The path contains a pid that may have been reused, and the descriptor may be another file.
	if (!path || readlink(path, found, sizeof found - 1) < 0 ||
	    strcmp(found, "/memfd:autoamp-emulated-refusals (deleted)") != 0)
		return nullptr;
	const int file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0)
		return nullptr;
	void *const mapped = mmap(nullptr, slotCount * sizeof(Slot), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	close(file);
	return mapped == MAP_FAILED ? nullptr : static_cast<Slot *>(mapped);
}

} // namespace

void countRefusal(const char *name, unsigned long launches)
{
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
