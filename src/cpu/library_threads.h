// The threads that a BLAS library of the program would use. Any thread; no lock.
#pragma once

#include <cstdint>

namespace autoamp::cpu {

// A function of a library, which is a handle of dlopen, or of one that it needs. Null or false: there is none.
void *functionOf(void *library, const char *name);
template <typename Function>
bool resolve(Function *&function, void *library, const char *name)
{
	function = reinterpret_cast<Function *>(functionOf(library, name));
	return function;
}

// Functions of an OpenMP library that has those of libgomp, as libiomp5 and libomp have. Without one, there is one
// thread.
struct OpenMp {
	int (*maxThreads)() = [] { return 1; };
	void (*setThreads)(int) = [](int) {};
	int (*inParallel)() = [] { return 0; };
	int (*threadNumber)() = [] { return 0; };
	int (*threadCount)() = [] { return 1; };
	void (*parallel)(void (*work)(void *), void *context, unsigned threads,
	                 unsigned flags) = [](void (*work)(void *), void *context, unsigned, unsigned) { work(context); };
};

// Finds them in a handle of dlopen and the libraries that it needs. False: one is missing, and `found` is unchanged.
bool findOpenMp(void *library, OpenMp &found);

// Sets the functions omp_in_parallel of the OpenMP libraries of the process. The list ends with null, and may grow.
void watchRegions(int (*const *inParallel)());
// The calling thread runs in a parallel region of one of them: a few nanoseconds.
bool isInParallel();

// A child does not have the threads of its parent, for which libgomp would wait. Products have one thread in a child of
// a process in which noteOpenMpRegion() was called.
void noteOpenMpRegion();
bool hasOpenMpThreads();

enum class Pool : uint8_t {
	none,        // one thread: a sequential library
	own,         // the library's own threads, without OpenMP
	openMp,      // those of libgomp
	otherOpenMp, // those of another OpenMP library, which products do not use, or perhaps one thread
};

// Least multiplications of a product for each thread, which take 10 to 20 us, or four times as many if the threads are
// our own, which sleep. Shorter parts take longer than the wake-up of a thread.
constexpr double leastPerThread(Pool pool)
{
	return pool == Pool::openMp ? 1 << 21 : 1 << 23;
}

// Threads that a product may have.
struct Threads {
	Threads(unsigned most, Pool pool = Pool::openMp, const OpenMp *openMp = nullptr)
	    : most(most), pool(pool), openMp(openMp)
	{
	}

	unsigned most;
	Pool pool;
	const OpenMp *openMp; // null: that of oneDNN
};

// Where a library has its settings.
struct LibraryThreads {
	Pool pool = Pool::none;
	int (*count)() = nullptr;
	OpenMp openMp = {};

	// The present ones, which the program may change: a few nanoseconds. At least one. Refers to this object.
	Threads now() const;
};

// `library`: a handle of dlopen. Searches the libraries that it needs as well, for OpenBLAS, MKL, BLIS, and OpenMP.
LibraryThreads threadsOf(void *library);

// The name of the kernels that an OpenBLAS uses on this CPU, a constant of the library; empty for another library.
const char *kernelsOf(void *library);

} // namespace autoamp::cpu
