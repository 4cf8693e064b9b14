#include "stand_in.h"

#include <cstdlib>
#include <cuda_runtime_api.h>

static thread_local const char *lastName;
static thread_local uint64_t lastSum;

void standInRemember(const char *name, uint64_t sum)
{
	lastName = name, lastSum = sum;
}

uint64_t standInLast(const char **name)
{
	*name = lastName;
	return lastSum;
}

extern "C" {
cudaError_t cudaMalloc(void **memory, size_t size)
{
	*memory = std::malloc(size);
	return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
	std::free(memory);
	return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind)
{
	std::memcpy(to, from, size);
	return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize()
{
	return cudaSuccess;
}
}
