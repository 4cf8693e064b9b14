// An OpenMP library in which all threads are in a parallel region. run() returns y if omp_in_parallel() was called.
#include <atomic>

static std::atomic<bool> isAsked{false};

extern "C" {

int omp_in_parallel()
{
	isAsked = true;
	return 1;
}

char run()
{
	return isAsked ? 'y' : 'n';
}

} // extern "C"
