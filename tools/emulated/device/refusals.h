// Counts kernels that the emulated device could not run, in all processes of one `autoamp run`, which prints them in
// its receipt. Programs that end before their first cuBLAS or cuDNN call have no trace, but are counted too. Any
// thread.
#pragma once

namespace emulated {

// Adds launches of a kernel to the counters of the run; 0: it was only looked up. No effect without a run.
void countRefusal(const char *name, unsigned long launches);

} // namespace emulated
