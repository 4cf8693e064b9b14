// Linked with the static CUDA runtime, as nvcc does by default: the emulated device cannot serve it and must say so.
#include <cuda_runtime_api.h>

int main()
{
	void *memory = nullptr;
	return cudaMalloc(&memory, 16) != cudaSuccess || cudaMalloc(&memory, 16) != cudaSuccess;
}
