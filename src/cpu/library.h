// The libraries of the program that contain a CPU BLAS. Any thread; it takes no lock.
#pragma once

#include "src/cpu/library_threads.h"

namespace autoamp::cpu {

// Records the library of the function, once. It needs the loader: the caller holds forks of other threads.
void recordLibrary(const void *original);

// The threads that the library would use now; one for a library that is not recorded. If its threads are those of an
// OpenMP library, `engine` tells whether oneDNN uses the same; null: the threads of libgomp count as shared.
Threads threadsOf(const void *original, const Dnnl *engine);

} // namespace autoamp::cpu
