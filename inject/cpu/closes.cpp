// The hook of dlclose. Any thread. The library of a caller is known by its return address, and another file may be
// mapped at this address after a close.
#include "inject/front.h"
#include "inject/loader.h"

#include <link.h>

extern "C" {

unsigned autoamp_cpu_closes;

} // extern "C"

namespace {

int noteUnloaded(dl_phdr_info *info, size_t, void *)
{
	const auto count = static_cast<unsigned>(info->dlpi_subs);
	unsigned known = __atomic_load_n(&autoamp_cpu_closes, __ATOMIC_RELAXED);
	while (count > known &&
	       !__atomic_compare_exchange_n(&autoamp_cpu_closes, &known, count, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	return 1; // all objects contain the same number
}

} // namespace

extern "C" AUTOAMP_EXPORT int dlclose(void *handle) noexcept
{
	using namespace autoamp::front;
	const int result = haveLoader() ? loader.close(handle) : -1;
	dl_iterate_phdr(noteUnloaded, nullptr);
	return result;
}
