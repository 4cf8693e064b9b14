// Work at the first call of each vendor library. Any thread.
#pragma once

#include "src/op/op.h"
#include "src/state/process.h"

namespace autoamp::core {

// Called at the first call of a library; `original` is an original function of it. Records the version, and looks up
// functions that are needed later: at a later call another thread may hold the loader lock.
void noteLibrary(Process &process, op::Library library, const void *original);
inline void noteLibraryOnce(Process &process, op::Library library, const void *original)
{
	if (__builtin_expect(
	        !(process.librariesSeen.load(std::memory_order_relaxed) >> static_cast<unsigned>(library) & 1u), 0))
		noteLibrary(process, library, original);
}

} // namespace autoamp::core
