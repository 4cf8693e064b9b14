// Interception of one call: its entry point, the original function and the caller.
#pragma once

#include <cstdint>

namespace autoamp {

struct Interception {
	uint16_t entryIndex;       // row of the entry tables
	const void *original;      // original function of the vendor library
	const void *returnAddress; // address in the caller's code, which identifies the caller
};

} // namespace autoamp
