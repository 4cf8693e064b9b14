// Differences of clock readings. Any thread.
#pragma once

#include <cstdint>

namespace autoamp::trace {

// Signed difference: a thread's counter may be slightly behind the first clock reading.
inline double since(uint64_t ticks, uint64_t first)
{
	return static_cast<double>(static_cast<int64_t>(ticks - first));
}

} // namespace autoamp::trace
