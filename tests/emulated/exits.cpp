// Ends a process in a way that its threads do not expect while streams work: the process must end as it asked, without
// a word.
//   exits return|exit|quick|last  main returns, or calls exit or quick_exit, while three threads submit and wait; or
//   they end
//                                 after main did
//   exits cancel                  cancels a thread that waits for a stream; the wait ends first, and the thread is
//   cancelled then
#include "kernels.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cuda_runtime.h>
#include <pthread.h>
#include <thread>
#include <unistd.h>

namespace {

std::atomic<bool> ended{false};
std::atomic<int> rounds{0};

void submitForEver()
{
	cudaStream_t stream = nullptr;
	cudaEvent_t event = nullptr;
	float *a = nullptr;
	if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) || cudaEventCreate(&event) ||
	    cudaMalloc(reinterpret_cast<void **>(&a), 400))
		_exit(10);
	while (!ended) {
		cudaMemsetAsync(a, 1, 400, stream);
		cudaLaunchHostFunc(
		    stream, [](void *) { ++rounds; }, nullptr);
		cudaEventRecord(event, stream);
		cudaMemsetAsync(a, 2, 400, stream);
		cudaEventSynchronize(event);
		cudaGraph_t graph = nullptr;
		cudaUserObject_t object = nullptr;
		cudaGraphCreate(&graph, 0);
		cudaUserObjectCreate(
		    &object, nullptr, [](void *) {}, 1, cudaUserObjectNoDestructorSync);
		cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove);
		cudaGraphDestroy(graph);
	}
}

int cancelled()
{
	static std::atomic<bool> isHeld{true};
	static std::atomic<int> reached{0};
	cudaStream_t stream = nullptr;
	if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) || cudaLaunchHostFunc(
	                                                                     stream,
	                                                                     [](void *) {
		                                                                     while (isHeld)
			                                                                     std::this_thread::yield();
	                                                                     },
	                                                                     nullptr))
		return 11;
	pthread_t thread;
	const auto waits = [](void *it) -> void * {
		reached = 1;
		if (cudaStreamSynchronize(static_cast<cudaStream_t>(it)) == cudaSuccess)
			reached = 2;
		pthread_testcancel();
		reached = 3;
		return nullptr;
	};
	if (pthread_create(&thread, nullptr, waits, stream))
		return 12;
	while (reached == 0)
		std::this_thread::yield();
	pthread_cancel(thread);
	isHeld = false;
	void *result = nullptr;
	pthread_join(thread, &result);
	if (reached != 2 || result != PTHREAD_CANCELED)
		return 13;
	return cudaDeviceSynchronize() == cudaSuccess ? 0 : 14;
}

} // namespace

int main(int count, char **arguments)
{
	const char *how = count > 1 ? arguments[1] : "";
	if (std::strcmp(how, "cancel") == 0)
		return cancelled();
	for (int i = 0; i < 3; ++i)
		std::thread(submitForEver).detach();
	while (rounds < 3)
		std::this_thread::yield();
	if (std::strcmp(how, "exit") == 0)
		std::exit(0);
	if (std::strcmp(how, "quick") == 0)
		std::quick_exit(0);
	if (std::strcmp(how, "last") == 0) {
		ended = true;
		pthread_exit(nullptr);
	}
	return 0;
}
