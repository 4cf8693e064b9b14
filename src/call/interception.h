// Interception of one call: its entry point, the original function and the caller.
#pragma once

#include <cstdint>

namespace autoamp {

struct Door {
	uint16_t index;     // row of the entry tables
	const void *truth;  // original function of the vendor library
	const void *caller; // return address
};

} // namespace autoamp
