// Nanoseconds that cublasSgemm takes in the calling thread, for a product with a weight of 1 MiB. hit_cost.py runs it
// on the emulated device, preloaded. The device works outside the measured time as far as its threads leave a CPU.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

int main()
{
	constexpr int size = 512, columns = 1, calls = 5, repeats = 20, uncounted = 8;
	float *a = nullptr, *b = nullptr, *c = nullptr;
	cublasHandle_t handle;
	if (cudaMalloc(&a, size * size * sizeof(float)) || cudaMalloc(&b, size * sizeof(float)) ||
	    cudaMalloc(&c, size * sizeof(float)) || cudaMemset(a, 0x3c, size * size * sizeof(float)) ||
	    cudaMemset(b, 0x3c, size * sizeof(float)) || cublasCreate(&handle))
		return 1;
	const float one = 1, zero = 0;
	const auto call = [&] {
		return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, columns, size, &one, a, size, b, size, &zero, c,
		                   size);
	};
	for (int i = 0; i < uncounted; i++)
		if (call() || cudaDeviceSynchronize())
			return 1;
	std::vector<double> times;
	for (int repeat = 0; repeat < repeats; repeat++) {
		const auto start = std::chrono::steady_clock::now();
		for (int i = 0; i < calls; i++)
			if (call())
				return 1;
		const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
		if (cudaDeviceSynchronize())
			return 1;
		times.push_back(time.count() / calls);
	}
	std::sort(times.begin(), times.end());
	std::printf("%.1f %.1f\n", times[times.size() / 2], times.front());
}
