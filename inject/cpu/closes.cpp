// The hook of dlclose. Any thread. The library of a caller is known by its return address, and another file may be
// mapped at this address after a close.
#include "inject/front.h"
#include "inject/loader.h"

extern "C" {

unsigned autoamp_cpu_closes;

AUTOAMP_EXPORT int dlclose(void *handle) noexcept
{
	using namespace autoamp::front;
	const int result = haveLoader() ? loader.close(handle) : -1;
	__atomic_add_fetch(&autoamp_cpu_closes, 1, __ATOMIC_RELEASE);
	return result;
}

} // extern "C"
