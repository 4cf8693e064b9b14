// The threads that a BLAS library of the program would use. Any thread; no lock.
#pragma once

#include "src/cpu/dnnl.h"

#include <cstdint>

namespace autoamp::cpu {

enum class Pool : uint8_t {
	none,         // one thread: a sequential library
	own,          // the library's own threads, without OpenMP
	sharedOpenMp, // those of the OpenMP library that oneDNN uses
	otherOpenMp,  // those of another OpenMP library
};

// Least multiplications of a product for each thread, which take 10 to 20 us, or four times as many if the threads are
// our own, which sleep. Shorter parts take longer than the wake-up of a thread.
constexpr double leastPerThread(Pool pool)
{
	return pool == Pool::sharedOpenMp ? 1 << 21 : 1 << 23;
}

// Threads that a product may have.
struct Threads {
	Threads(unsigned most, Pool pool = Pool::sharedOpenMp) : most(most), pool(pool) {}

	unsigned most;
	Pool pool;
};

// Where a library has its settings.
struct LibraryThreads {
	Pool pool = Pool::none;
	int (*count)() = nullptr;
	int (*inParallel)() = nullptr; // the calling thread runs in a parallel region of OpenMP

	// The present ones, which the program may change: a few nanoseconds. At least one.
	Threads now() const;
};

// `library`: a handle of dlopen. Searches the libraries that it needs as well, for OpenBLAS, MKL, BLIS, and OpenMP.
LibraryThreads threadsOf(const Dnnl &dnnl, void *library);

// The name of the kernels that an OpenBLAS uses on this CPU, a constant of the library; empty for another library.
const char *kernelsOf(void *library);

} // namespace autoamp::cpu
