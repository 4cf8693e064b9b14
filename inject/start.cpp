#include "inject/start.h"

#include "inject/fork.h"
#include "inject/loader.h"
#include "inject/message.h"

namespace autoamp::front {

constinit bool isStarted = false;

namespace {

// The only constructor. The first call would be too late: forks race with it, and descriptor 2 may be another file by
// then. Everything else works before the constructor has run.
__attribute__((constructor)) void begin()
{
	const base::CallerState callerState;
	rememberStderr();
	registerForkHandlers();
	noteStart();
	__atomic_store_n(&isStarted, true, __ATOMIC_RELEASE);
}

} // namespace

} // namespace autoamp::front
