// The kernels that the emulated device could not run, counted for all processes of one `autoamp run`, which prints them
// in its receipt: also for a program that ends before its first cuBLAS or cuDNN call and so has no trace. Any thread.
#pragma once

namespace emulated {

// Adds launches of a kernel to the counters of the run; 0: it was only looked up. Without a run it does nothing.
void countRefusal(const char *name, unsigned long launches);

} // namespace emulated
