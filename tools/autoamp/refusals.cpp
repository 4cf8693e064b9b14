#include "tools/autoamp/refusals.h"

#include <cstring>
#include <fmt/format.h>

namespace autoamp::tool {

namespace {

// Must match the layout in tools/emulated/device/refusals.cpp.
struct Slot {
	uint32_t state, reserved; // state 2: complete
	uint64_t launches;
	char name[Refusals::longestName + 1];
};
constexpr size_t slotCount = 2048; // the system provides only the pages that are used
static_assert(sizeof(Slot) == 8192);

} // namespace

Refusals::Refusals(Environment &environment) : segment_(slotCount * sizeof(Slot))
{
	if (segment_.data())
		environment.set("_AUTOAMP_EMU_REFUSALS", fmt::format("{}", segment_.id()));
	else
		environment.unset("_AUTOAMP_EMU_REFUSALS"); // that of a run around this one
}

std::map<std::string, uint64_t> Refusals::read() const
{
	std::map<std::string, uint64_t> launches;
	const auto *const slots = static_cast<const Slot *>(segment_.data());
	for (size_t i = 0; slots && i < slotCount; i++) {
		const uint32_t state = __atomic_load_n(&slots[i].state, __ATOMIC_ACQUIRE);
		if (state == 0) // so are all that follow
			break;
		if (state == 2)
			launches[std::string(slots[i].name, ::strnlen(slots[i].name, sizeof slots[i].name))] += slots[i].launches;
	}
	return launches;
}

} // namespace autoamp::tool
