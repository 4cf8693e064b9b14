// Leaves work unfinished and ends its main thread, as some programs do: no thread of the emulated device may keep the
// process alive, and the work must be completed. The last host function sets the exit status.
#include "kernels.h"

#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>

int main()
{
	static float *pinned = nullptr;
	float *a = nullptr;
	cudaUserObject_t object = nullptr;
	cudaGraph_t graph = nullptr;
	if (cudaMalloc(reinterpret_cast<void **>(&a), 400) || cudaMallocHost(reinterpret_cast<void **>(&pinned), 400) ||
	    cudaGraphCreate(&graph, 0) ||
	    cudaUserObjectCreate(
	        &object, nullptr, [](void *) {}, 1, cudaUserObjectNoDestructorSync) ||
	    cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove) || cudaGraphDestroy(graph))
		return 1;
	if (fill(a, 7, 100) || cudaMemcpyAsync(pinned, a, 400, cudaMemcpyDeviceToHost, nullptr))
		return 2;
	const auto judge = [](void *) {
		if (pinned[99] != 7)
			_exit(3);
	};
	if (cudaLaunchHostFunc(nullptr, judge, nullptr))
		return 4;
	atexit([] { puts("ended"); });
	pthread_exit(nullptr);
}
