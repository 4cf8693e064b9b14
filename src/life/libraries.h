// The vendor's libraries as they are first called. Any thread.
#pragma once

#include "src/op/op.h"
#include "src/state/process.h"

namespace autoamp::core {

// At a library's first call, of which `known` is a true function: its version for the trace, and what must be looked up
// while the loader is free; at a later one another thread may be holding it.
void meetFirst(Process &process, op::Library library, const void *known);
inline void meet(Process &process, op::Library library, const void *known)
{
	if (__builtin_expect(!(process.met.load(std::memory_order_relaxed) >> static_cast<unsigned>(library) & 1u), 0))
		meetFirst(process, library, known);
}

} // namespace autoamp::core
