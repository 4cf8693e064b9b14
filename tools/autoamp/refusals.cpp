#include "tools/autoamp/refusals.h"

#include "src/base/quiet_write.h"

#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace autoamp::tool {

namespace {

// Must match the layout in tools/emulated/device/refusals.cpp.
struct Slot {
	uint32_t state, reserved; // state 2: complete
	uint64_t launches;
	char name[Refusals::longestName + 1];
};
constexpr size_t slotCount = 128;
static_assert(sizeof(Slot) == 1024);

} // namespace

Refusals::Refusals(Environment &environment) : file_(::memfd_create("autoamp-emulated-refusals", MFD_CLOEXEC))
{
	const base::WriteSignals signals; // RLIMIT_FSIZE
	if (::ftruncate(file_, slotCount * sizeof(Slot)) == 0)
		environment.set("_AUTOAMP_EMU_REFUSALS", fmt::format("/proc/{}/fd/{}", ::getpid(), file_));
}

Refusals::~Refusals()
{
	::close(file_);
}

std::map<std::string, uint64_t> Refusals::read() const
{
	std::map<std::string, uint64_t> launches;
	Slot slot;
	for (size_t i = 0; i < slotCount; i++)
		if (::pread(file_, &slot, sizeof slot, static_cast<off_t>(i * sizeof slot)) == sizeof slot && slot.state == 2)
			launches[std::string(slot.name, ::strnlen(slot.name, sizeof slot.name))] += slot.launches;
	return launches;
}

} // namespace autoamp::tool
