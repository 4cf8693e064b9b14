// The libraries of the program that contain a CPU BLAS. Any thread; it takes no lock.
#pragma once

#include "src/cpu/library_threads.h"

namespace autoamp::cpu {

// Records the library of the function, once. It needs the loader: the caller
// holds forks of other threads. If another thread is recording it, the function waits for it, at most a second.
// mayWait: false if this thread holds the loader.
void recordLibrary(const void *original, bool mayWait);

// The threads that the library would use now; one for a library that is not recorded.
Threads threadsOf(const void *original);

// Its kernelsOf(); empty for a library that is not recorded.
const char *kernelsOfLibrary(const void *original);

} // namespace autoamp::cpu
