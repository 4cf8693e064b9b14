// Rows of launches.inc. Shared by front and core.
#pragma once

#include "inject/entry_index.h"

namespace autoamp::entry {

// Their originals and slots have the rows vendorEntryCount + launch.
enum Launch : unsigned {
#define ENTRY(name, ...) launch_##name,
#include "inject/launches.inc"
#undef ENTRY
	launchCount
};

} // namespace autoamp::entry
