// tolerance WORD...: a program with a tolerance. It does not depend on autoamp. In order:
//   SIZE          multiply two square matrices with cublasSgemm
//   SIZE?OTHER    if the product of SIZE was exact, multiply matrices of OTHER
//   tf32          allow TF32 from now on; only an error above that of TF32 counts then
//   region=NAME   open a region for the next products; region= closes it
//   fail=S+S-S... fail if the products of all these sizes are inexact, and exact after a minus
//   fail          fail
//   wait=FILE     create FILE, and wait until it is removed
// Exit status: 0 passed, 1 failed, 3 an error.
#include "inject/autoamp.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

std::map<int, bool> inexact; // by size
bool allowsTf32 = false;

// Rounding to float16 or TF32 causes a relative error of about 3e-4, to bfloat16 2e-3, fp32 less than 1e-6.
bool isInexact(int size)
{
	const auto count = static_cast<size_t>(size) * static_cast<size_t>(size), bytes = count * sizeof(float);
	std::vector<float> host(3 * count);
	unsigned state = 1;
	for (auto &value : host)
		value = static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / 0x1p24f - 0.5f;
	float *a = nullptr;
	const float one = 1, zero = 0;
	static cublasHandle_t handle = nullptr;
	if ((!handle && cublasCreate(&handle)) || cudaMalloc(reinterpret_cast<void **>(&a), 3 * bytes) ||
	    cudaMemcpy(a, host.data(), 3 * bytes, cudaMemcpyHostToDevice) ||
	    cublasSetMathMode(handle, allowsTf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH) ||
	    cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, a, size, a + count, size, &zero,
	                a + 2 * count, size) ||
	    cudaMemcpy(&host[2 * count], a + 2 * count, bytes, cudaMemcpyDeviceToHost) || cudaFree(a))
		std::exit(3);
	double error = 0, norm = 0;
	const auto n = static_cast<size_t>(size);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			double sum = 0;
			for (size_t k = 0; k < n; k++)
				sum += double(host[i + k * n]) * double(host[count + k + j * n]);
			const double difference = host[2 * count + i + j * n] - sum;
			error += difference * difference, norm += sum * sum;
		}
	return std::sqrt(error / norm) > (allowsTf32 ? 1e-3 : 1e-5);
}

bool isHarmful(const char *sizes)
{
	bool all = true;
	for (char *end = nullptr; *sizes; sizes = *end == '+' ? end + 1 : end) {
		const auto size = static_cast<int>(std::strtol(sizes, &end, 10));
		all &= inexact[std::abs(size)] == (size > 0);
	}
	return all;
}

} // namespace

int main(int count, char **words)
{
	bool hasFailed = false;
	for (int i = 1; i < count; i++) {
		const std::string word = words[i];
		int size = 0, other = 0;
		if (word == "fail") {
			hasFailed = true;
		} else if (word == "tf32") {
			allowsTf32 = true;
		} else if (word.starts_with("fail=")) {
			hasFailed |= isHarmful(words[i] + 5);
		} else if (word == "region=") {
			autoamp_pop();
		} else if (word.starts_with("region=")) {
			autoamp_region region = AUTOAMP_REGION;
			region.name = words[i] + 7;
			autoamp_push(&region);
		} else if (word.starts_with("wait=")) {
			if (std::FILE *file = std::fopen(words[i] + 5, "wx"))
				std::fclose(file);
			while (::access(words[i] + 5, F_OK) == 0)
				::usleep(10'000);
		} else if (std::sscanf(words[i], "%d?%d", &size, &other) == 2) {
			if (!inexact[size])
				inexact[other] = isInexact(other);
		} else {
			size = std::atoi(words[i]);
			inexact[size] = isInexact(size);
		}
	}
	return hasFailed;
}
