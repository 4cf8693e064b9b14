// One row of the entry tables (inject/*.entries) as the core knows it. Constant data: any thread.
#pragma once

#include "src/op/op.h"

namespace autoamp::entry
{

struct Entry {
	const char *name;
	op::Library library;
	op::Dtype dtype; // none: it stands in the arguments
	op::Obstacle obstacle;
};

} // namespace autoamp::entry
