// Nanoseconds per cudaLaunchKernel of a kernel that belongs to no gradient scaler: `launch_cost [REPEATS]`.
// launch_cost.py runs it without autoamp and preloaded. The launch function of empty_launch.c does nothing. A product
// comes first, because launches are diverted only after that.
#include <cublas_v2.h>
#include <cuda_runtime.h>

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
	const int repeats = count > 1 ? std::atoi(arguments[1]) : 21;
	constexpr int calls = 1'000'000;
	cublasHandle_t handle;
	float *memory = nullptr, one = 1, zero = 0;
	if (cublasCreate(&handle) || cudaMalloc(reinterpret_cast<void **>(&memory), 3 * sizeof *memory) ||
	    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, memory, 1, memory + 1, 1, &zero, memory + 2, 1))
		return 1;
	static const char kernels[4] = {}; // their addresses stand for kernels
	std::vector<double> times;
	for (int repeat = 0; repeat <= repeats; repeat++) {
		const double start = now();
		for (int call = 0; call < calls; call++)
			if (cudaLaunchKernel(kernels + call % 4, dim3(1), dim3(1), nullptr, 0, nullptr))
				return 1;
		if (repeat) // the first repeat warms up
			times.push_back((now() - start) / calls);
	}
	std::sort(times.begin(), times.end());
	std::printf("%.2f %.2f %.2f\n", times[times.size() / 2], times.front(), times.back());
	cudaFree(memory);
	cublasDestroy(handle);
}
