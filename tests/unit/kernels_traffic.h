// The conversion kernels as on the emulated device, in a separate library that counts the bytes of memory which they
// load and store. Tests and benchmarks, one thread.
#pragma once

#include "kernels/cast.h"

#include <span>

struct Region {
	const void *begin;
	size_t size;
	uint64_t loaded = 0, stored = 0; // bytes
};

// Runs the kernel of this name, and adds its accesses to the regions. They must not overlap.
__attribute__((visibility("default"))) void runCounted(const char *kernel, unsigned blocks,
                                                       const autoamp::kernels::Parameters &parameters,
                                                       std::span<Region> regions);
