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
	Kind kind = Kind::none; // of cuDNN's; the descriptors may say it better
};

} // namespace autoamp::op
