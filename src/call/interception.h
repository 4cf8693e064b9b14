// Interception of one call: its entry point, the original function and the caller.
#pragma once

#include <cstdint>

namespace autoamp {

struct Interception {
	uint16_t entryIndex;       // row of the entry tables
	const void *original;      // original function of the vendor library
	const void *returnAddress; // return address
};

} // namespace autoamp
