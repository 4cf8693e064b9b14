// Receives NVTX ranges. Any thread.
#pragma once

namespace autoamp::core {

// NVTX calls it before the first range of an object (InitializeInjectionNvtx2), with its function tables.
int receiveRanges(const void *tables);

} // namespace autoamp::core
