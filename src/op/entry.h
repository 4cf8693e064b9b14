// One row of the entry tables (inject/*.entries) as used by the core. Constant data: any thread.
#pragma once

#include "src/op/op.h"

namespace autoamp::op {

struct Entry {
	const char *name;
	Library library;
	Dtype dtype; // none: an argument holds it
	Obstacle obstacle;
	bool areArrays = false; // A, B and C are arrays of device pointers, in device memory
	Kind kind = Kind::none; // the descriptors of a cuDNN call may give a more specific one
};

// True if no call of the entry point has a lower-precision form, whatever its arguments are. Such calls are only
// counted.
constexpr bool isOnlyCounted(const Entry &entry)
{
	return entry.dtype >= Dtype::float64;
}

} // namespace autoamp::op
