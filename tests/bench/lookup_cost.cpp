// Nanoseconds per dlsym of a name that autoamp does not intercept: `lookup_cost [SIZE] [REPEATS]`. call_cost.py runs it
// without autoamp and preloaded, like call_cost. It makes one product first, because the hook is active only after
// that.
#include <cublas_v2.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

// CPU time of this thread: nothing waits here, and a busy machine affects it less.
static double now()
{
	timespec time;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return double(time.tv_sec) * 1e9 + double(time.tv_nsec);
}

int main(int count, char **arguments)
{
	const int repeats = count > 2 ? std::atoi(arguments[2]) : 21;
	constexpr int calls = 200'000;
	cublasHandle_t handle;
	float one = 1, zero = 0, a = 0, b = 0, c = 0;
	if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
		return 1;
	cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, &a, 1, &b, 1, &zero, &c, 1);
	void *const libc = dlopen("libc.so.6", RTLD_LAZY);
	std::vector<double> times;
	for (int repeat = 0; repeat <= repeats; repeat++) {
		const double start = now();
		for (int call = 0; call < calls; call++)
			if (!dlsym(libc, "getpid"))
				return 1;
		if (repeat) // the first repeat warms up
			times.push_back((now() - start) / calls);
	}
	std::sort(times.begin(), times.end());
	std::printf("%.2f %.2f %.2f\n", times[times.size() / 2], times.front(), times.back());
	cublasDestroy(handle);
}
