// One row of the entry tables (inject/*.entries) as the core knows it. Constant data: any thread.
#pragma once

#include "src/op/op.h"

namespace autoamp::op {

struct Entry {
	const char *name;
	Library library;
	Dtype dtype; // none: it stands in the arguments
	Obstacle obstacle;
	bool areArrays = false; // A, B and C are arrays of device pointers, in device memory
	Kind kind = Kind::none; // the descriptors of a cuDNN call may say it better
};

// No call of it has a lower-precision form, whatever its arguments are: calls are counted and nothing more.
constexpr bool isOnlyCounted(const Entry &entry)
{
	return entry.dtype >= Dtype::float64;
}

} // namespace autoamp::op
