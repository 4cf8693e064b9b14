// The profiler switch: cudaProfilerStart and cudaProfilerStop, and their driver versions, with which a program selects
// the part to record. Any thread.
#pragma once

namespace autoamp::front {

// Returns the front's function for a switch of this name; null for other names. Not the exported function, because its
// name may resolve to another definition.
int (*switchNamed(const char *name))();

} // namespace autoamp::front
