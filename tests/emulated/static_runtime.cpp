// Linked with the static CUDA runtime, nvcc's default: the emulated device cannot support it and must report that.
#include <cuda_runtime_api.h>

int main()
{
	void *memory = nullptr;
	return cudaMalloc(&memory, 16) != cudaSuccess || cudaMalloc(&memory, 16) != cudaSuccess;
}
