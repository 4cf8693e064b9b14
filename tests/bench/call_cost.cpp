// Nanoseconds per cublasSgemm call. `call_cost [SIZE] [REPEATS]` prints the median of the repeats and their spread.
// call_cost.py runs it without autoamp and preloaded; the libraries to which it is linked determine what is measured.
// `call_cost SIZE REPEATS region`: with a region open; also prints the nanoseconds of opening and closing one.
// `call_cost SIZE REPEATS fp64`: cublasDgemm, which is only counted.
#include "inject/autoamp.h"

#include <cublas_v2.h>
#ifdef WITH_CONTEXT // a driver that works: libcudart and libcuda of the emulated device
#include <cuda_runtime_api.h>
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

int main(int count, char **arguments)
{
	const int size = count > 1 ? std::atoi(arguments[1]) : 64;
	const int repeats = count > 2 ? std::atoi(arguments[2]) : 21;
	constexpr int calls = 200'000;
#ifdef WITH_CONTEXT
	if (cudaFree(nullptr) != cudaSuccess)
		return 1;
#endif
	cublasHandle_t handle;
	if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
		return 1;
	const std::string mode = count > 3 ? arguments[3] : "";
	const bool isInside = mode == "region", isDouble = mode == "fp64";
	autoamp_region region = AUTOAMP_REGION;
	region.name = "region", region.dtype = "bfloat16";
	if (isInside)
		autoamp_push(&region);
	double dOne = 1, dZero = 0, dA = 0;
	float one = 1, zero = 0, a = 0, b = 0, c = 0; // never dereferenced: the product is kept, or the library is empty
	std::vector<double> times;
	for (int repeat = 0; repeat <= repeats; repeat++) {
		const auto start = std::chrono::steady_clock::now();
		for (int call = 0; call < calls && isDouble; call++)
			cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &dOne, &dA, size, &dA, size, &dZero, &dA,
			            size);
		for (int call = 0; call < calls && !isDouble; call++)
			cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, &a, size, &b, size, &zero, &c, size);
		const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
		if (repeat) // the first repeat warms up
			times.push_back(time.count() / calls);
	}
	std::sort(times.begin(), times.end());
	std::printf("%.2f %.2f %.2f", times[times.size() / 2], times.front(), times.back());
	const auto start = std::chrono::steady_clock::now();
	for (int i = 0; isInside && i < calls; i++) {
		autoamp_push(&region);
		autoamp_pop();
	}
	const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
	std::printf(" %.2f\n", time.count() / calls);
	cublasDestroy(handle);
}
