// A program with a small kernel, compiled by nvcc: it does not depend on the emulated device. Exits with 0 if every
// element is right.
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

__global__ void scale(float *data, float factor, int count)
{
	const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
	if (i < count)
		data[i] *= factor;
}

int main()
{
	constexpr int count = 1000;
	std::vector<float> host(count, 3);
	float *data = nullptr;
	cudaMalloc(&data, count * sizeof *data);
	cudaMemcpy(data, host.data(), count * sizeof *data, cudaMemcpyHostToDevice);
	scale<<<(count + 127) / 128, 128>>>(data, 0.5f, count);
	cudaError_t error = cudaGetLastError();
	if (!error)
		error = cudaMemcpy(host.data(), data, count * sizeof *data, cudaMemcpyDeviceToHost);
	if (error) {
		std::printf("%s\n", cudaGetErrorName(error));
		return 2;
	}
	for (const float value : host)
		if (value != 1.5f)
			return 1;
	return 0;
}
