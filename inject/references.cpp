#include "inject/references.h"

#include "inject/atomics.h"

#include <sys/mman.h>

namespace autoamp::front {

namespace {

constexpr uintptr_t offsetMask = 4095; // in a page

} // namespace

bool isReadOnly(const dl_phdr_info &info, const void *place)
{
	const uintptr_t page = reinterpret_cast<uintptr_t>(place) & ~offsetMask;
	for (int i = 0; i < info.dlpi_phnum; i++)
		if (const auto &part = info.dlpi_phdr[i]; part.p_type == PT_GNU_RELRO) {
			const uintptr_t begin = info.dlpi_addr + part.p_vaddr, end = begin + part.p_memsz;
			return page >= (begin & ~offsetMask) && page < (end & ~offsetMask); // rounded as in the loader
		}
	return false;
}

void redirect(void **place, void *target, bool isReadOnly)
{
	auto *const page = reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(place) & ~offsetMask);
	if (isReadOnly && mprotect(page, offsetMask + 1, PROT_READ | PROT_WRITE) != 0)
		return;
	store(*place, target);
	if (isReadOnly)
		mprotect(page, offsetMask + 1, PROT_READ);
}

} // namespace autoamp::front
