#include "kernels.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cuda_runtime.h>
#include <mutex>
#include <thread>
#include <vector>

namespace {

struct Buffer {
	Buffer() { REQUIRE(cudaMalloc(reinterpret_cast<void **>(&at), 400) == cudaSuccess); }
	~Buffer() { cudaFree(at); }
	Buffer(const Buffer &) = delete;
	float first() const
	{
		float value = 0;
		REQUIRE(cudaMemcpy(&value, at, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
		return value;
	}
	float *at = nullptr;
};

struct Stream {
	explicit Stream(unsigned flags = cudaStreamNonBlocking)
	{
		REQUIRE(cudaStreamCreateWithFlags(&at, flags) == cudaSuccess);
	}
	~Stream() { cudaStreamDestroy(at); }
	Stream(const Stream &) = delete;
	operator cudaStream_t() const { return at; }
	cudaStream_t at = nullptr;
};

// Holds a stream until it is opened.
struct Gate {
	void close(cudaStream_t stream)
	{
		REQUIRE(cudaLaunchHostFunc(
		            stream,
		            [](void *self) {
			            auto *gate = static_cast<Gate *>(self);
			            std::unique_lock lock(gate->mutex);
			            gate->changed.wait(lock, [gate] { return gate->isOpen; });
		            },
		            this) == cudaSuccess);
	}
	void open()
	{
		std::lock_guard guard(mutex);
		isOpen = true;
		changed.notify_all();
	}
	std::mutex mutex;
	std::condition_variable changed;
	bool isOpen = false;
};

} // namespace

TEST_CASE("work runs even if no call waits for it")
{
	Stream s;
	static std::atomic<bool> done{false};
	REQUIRE(cudaLaunchHostFunc(
	            s, [](void *) { done = true; }, nullptr) == cudaSuccess);
	for (int i = 0; i < 1000 && !done; ++i)
		std::this_thread::sleep_for(std::chrono::milliseconds(5));
	CHECK(done);
}

TEST_CASE("queries say what is pending and make it happen")
{
	Stream s;
	Buffer a;
	Gate gate;
	cudaEvent_t event = nullptr;
	REQUIRE(cudaEventCreate(&event) == cudaSuccess);
	CHECK(cudaStreamQuery(s) == cudaSuccess);
	CHECK(cudaEventQuery(event) == cudaSuccess);
	gate.close(s);
	REQUIRE(fill(a.at, 3, 100, s) == cudaSuccess);
	REQUIRE(cudaEventRecord(event, s) == cudaSuccess);
	CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
	CHECK(cudaEventQuery(event) == cudaErrorNotReady);
	gate.open();
	while (cudaEventQuery(event) == cudaErrorNotReady)
		std::this_thread::yield();
	CHECK(cudaStreamQuery(s) == cudaSuccess);
	CHECK(a.first() == 3);
	CHECK(cudaEventDestroy(event) == cudaSuccess);
	CHECK(cudaEventDestroy(event) == cudaErrorInvalidResourceHandle);
	cudaGetLastError();
}

TEST_CASE("the default stream waits for blocking streams and they for it, others go their way")
{
	Stream blocking(cudaStreamDefault), other;
	Buffer a, b;
	Gate gate;
	gate.close(blocking);
	REQUIRE(fill(a.at, 1, 100, blocking) == cudaSuccess);
	REQUIRE(add(a.at, a.at, 100, cudaStreamLegacy) == cudaSuccess);
	Stream second(cudaStreamDefault);
	REQUIRE(add(a.at, a.at, 100, second) == cudaSuccess);
	REQUIRE(fill(b.at, 7, 100, other) == cudaSuccess);
	CHECK(cudaStreamSynchronize(other) == cudaSuccess); // would hang if it waited for the gate
	CHECK(cudaStreamQuery(cudaStreamLegacy) == cudaErrorNotReady);
	CHECK(cudaStreamQuery(second) == cudaErrorNotReady);
	gate.open();
	CHECK(cudaStreamSynchronize(second) == cudaSuccess);
	CHECK(a.first() == 4);
}

TEST_CASE("more gates than workers")
{
	std::vector<std::unique_ptr<Stream>> streams;
	std::vector<std::unique_ptr<Gate>> gates;
	Buffer a;
	for (int i = 0; i < 20; ++i) {
		streams.push_back(std::make_unique<Stream>());
		gates.push_back(std::make_unique<Gate>());
		gates.back()->close(*streams.back());
		cudaStreamQuery(*streams.back());
	}
	Stream free;
	REQUIRE(fill(a.at, 2, 100, free) == cudaSuccess);
	CHECK(cudaStreamSynchronize(free) == cudaSuccess);
	for (const auto &gate : gates)
		gate->open();
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
	CHECK(a.first() == 2);
}

TEST_CASE("ten thousand streams")
{
	Buffer a;
	REQUIRE(fill(a.at, 0, 100) == cudaSuccess);
	float one = 1;
	Buffer b;
	REQUIRE(cudaMemcpy(b.at, &one, 4, cudaMemcpyHostToDevice) == cudaSuccess);
	std::vector<cudaStream_t> streams(10'000);
	for (cudaStream_t &stream : streams)
		REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
	cudaEvent_t event = nullptr;
	REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
	for (cudaStream_t stream : streams) { // one long chain through all of them
		REQUIRE(cudaStreamWaitEvent(stream, event, 0) == cudaSuccess);
		REQUIRE(add(a.at, b.at, 1, stream) == cudaSuccess);
		REQUIRE(cudaEventRecord(event, stream) == cudaSuccess);
	}
	for (cudaStream_t stream : streams)
		REQUIRE(cudaStreamDestroy(stream) == cudaSuccess); // its work is still completed
	CHECK(a.first() == 10'000);
	CHECK(cudaStreamDestroy(streams[0]) == cudaErrorInvalidResourceHandle);
	cudaGetLastError();
	CHECK(cudaEventDestroy(event) == cudaSuccess);
}

TEST_CASE("pageable memory is read when the call is made, pinned memory when the stream is there")
{
	Stream s;
	Buffer a, b;
	float *pinned = nullptr, pageable = 1;
	REQUIRE(cudaMallocHost(reinterpret_cast<void **>(&pinned), 4) == cudaSuccess);
	*pinned = 1;
	REQUIRE(cudaMemcpyAsync(a.at, &pageable, 4, cudaMemcpyHostToDevice, s) == cudaSuccess);
	REQUIRE(cudaMemcpyAsync(b.at, pinned, 4, cudaMemcpyHostToDevice, s) == cudaSuccess);
	pageable = *pinned = 2;
	REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
	CHECK(a.first() == 1);
	CHECK(b.first() == 2);
	CHECK(cudaFreeHost(pinned) == cudaSuccess);
}

TEST_CASE("a wait keeps the record that it was given")
{
	Stream s, other;
	Buffer a;
	Gate gate;
	cudaEvent_t event = nullptr;
	REQUIRE(cudaEventCreate(&event) == cudaSuccess);
	REQUIRE(fill(a.at, 1, 100, s) == cudaSuccess);
	REQUIRE(cudaEventRecord(event, s) == cudaSuccess);
	REQUIRE(cudaStreamWaitEvent(other, event, 0) == cudaSuccess);
	gate.close(s);
	REQUIRE(cudaEventRecord(event, s) == cudaSuccess); // does not affect `other`
	CHECK(cudaStreamSynchronize(other) == cudaSuccess);
	gate.open();
	CHECK(cudaEventSynchronize(event) == cudaSuccess);
	cudaEvent_t later = nullptr;
	REQUIRE(cudaEventCreate(&later) == cudaSuccess);
	REQUIRE(cudaEventRecord(later, s) == cudaSuccess);
	float ms = -1;
	REQUIRE(cudaEventSynchronize(later) == cudaSuccess);
	CHECK(cudaEventElapsedTime(&ms, event, later) == cudaSuccess);
	CHECK(ms >= 0);
	cudaEventDestroy(event);
	cudaEventDestroy(later);
}

TEST_CASE("per-thread default streams are one a thread, also by the twins' names")
{
	Buffer a;
	unsigned long long mine = 0, theirs = 0, again = 0;
	REQUIRE(cudaStreamGetId(cudaStreamPerThread, &mine) == cudaSuccess);
	REQUIRE(cudaStreamGetId(cudaStreamPerThread, &again) == cudaSuccess);
	std::thread([&] { cudaStreamGetId(cudaStreamPerThread, &theirs); }).join();
	CHECK(mine == again);
	CHECK(mine != theirs);
	REQUIRE(fill(a.at, 4, 100, cudaStreamPerThread) == cudaSuccess);
	CHECK(cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess);
	CHECK(a.first() == 4);
}

TEST_CASE("a broken context returns its error until it is reset; the other device continues")
{
	{
		Stream s;
		float host = 0;
		REQUIRE(fill(&host, 1, 1, s) == cudaSuccess);
		CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
	}
	void *a = nullptr;
	CHECK(cudaMalloc(&a, 16) == cudaErrorIllegalAddress);
	CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
	CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
	CHECK(cudaSetDevice(1) == cudaSuccess);
	CHECK(cudaMalloc(&a, 16) == cudaSuccess);
	CHECK(cudaFree(a) == cudaSuccess);
	CHECK(cudaSetDevice(0) == cudaErrorIllegalAddress);
	CHECK(cudaDeviceReset() == cudaSuccess);
	CHECK(cudaMalloc(&a, 16) == cudaSuccess);
	CHECK(cudaFree(a) == cudaSuccess);
	cudaGetLastError();
	CHECK(cudaGetLastError() == cudaSuccess);
}
