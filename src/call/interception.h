// Where a call was intercepted: its entry point, the original function, the caller.
#pragma once

#include <cstdint>

namespace autoamp {

struct Door {
	uint16_t index;     // row of the entry tables
	const void *truth;  // the vendor's function
	const void *caller; // return address
};

} // namespace autoamp
