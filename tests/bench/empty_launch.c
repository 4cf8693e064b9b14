/* A launch function that does nothing, preloaded behind autoamp. */
#include <cuda_runtime_api.h>

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                             cudaStream_t stream)
{
	return cudaSuccess;
}
