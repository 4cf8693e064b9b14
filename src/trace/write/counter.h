// Adds to a counter that only the calling thread writes. Any thread.
#pragma once

#include "src/trace/format.h"

namespace autoamp::trace {

inline void add(Counter &value, uint64_t more)
{
	// One writer: no locked instruction needed.
	value.store(value.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

} // namespace autoamp::trace
