// The clock of the hot path: the time stamp counter, 10 ns where clock_gettime takes 25.
// Any thread.
#pragma once

#include <cstdint>
#include <x86intrin.h>

namespace autoamp::base {

inline uint64_t ticks()
{
	return __rdtsc();
}

} // namespace autoamp::base
