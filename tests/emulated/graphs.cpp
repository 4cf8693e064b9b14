#include "kernels.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cuda_runtime.h>
#include <thread>

namespace {

struct Setting {
	Setting()
	{
		REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
		REQUIRE(cudaStreamCreateWithFlags(&branch, cudaStreamNonBlocking) == cudaSuccess);
		REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
		REQUIRE(cudaMalloc(reinterpret_cast<void **>(&a), 400) == cudaSuccess);
		REQUIRE(cudaMalloc(reinterpret_cast<void **>(&b), 400) == cudaSuccess);
		REQUIRE(fill(a, 1, 100) == cudaSuccess);
		REQUIRE(fill(b, 1, 100) == cudaSuccess);
		REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
	}
	~Setting()
	{
		cudaStreamDestroy(s);
		cudaStreamDestroy(branch);
		cudaEventDestroy(event);
		cudaFree(a);
		cudaFree(b);
		cudaGetLastError();
	}
	Setting(const Setting &) = delete;

	float first(const float *from) const
	{
		float value = 0;
		REQUIRE(cudaMemcpy(&value, from, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
		return value;
	}
	cudaStream_t s = nullptr, branch = nullptr;
	cudaEvent_t event = nullptr;
	float *a = nullptr, *b = nullptr;
};

} // namespace

TEST_CASE_METHOD(Setting, "a captured graph runs again and again, not while it is captured")
{
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t exec = nullptr;
	REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal) == cudaSuccess);
	REQUIRE(add(a, b, 100, s) == cudaSuccess);
	cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	unsigned long long id = 0;
	cudaGraph_t underway = nullptr;
	const cudaGraphNode_t *nodes = nullptr;
	size_t count = 0;
	REQUIRE(cudaStreamGetCaptureInfo(s, &status, &id, &underway, &nodes, nullptr, &count) == cudaSuccess);
	CHECK(status == cudaStreamCaptureStatusActive);
	CHECK(id != 0);
	CHECK(count == 1);
	cudaGraphNodeType type = cudaGraphNodeTypeCount;
	CHECK(cudaGraphNodeGetType(nodes[0], &type) == cudaSuccess);
	CHECK(type == cudaGraphNodeTypeKernel);
	REQUIRE(cudaStreamEndCapture(s, &graph) == cudaSuccess);
	REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
	CHECK(cudaGraphDestroy(graph) == cudaSuccess);
	CHECK(first(a) == 1);
	for (int i = 0; i < 5; ++i)
		REQUIRE(cudaGraphLaunch(exec, i % 2 ? s : branch) == cudaSuccess); // launches of one graph keep their order
	REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);                    // what was launched still runs
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
	CHECK(first(a) == 6);
}

TEST_CASE_METHOD(Setting, "capture follows events into other streams and back")
{
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t exec = nullptr;
	cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
	REQUIRE(cudaEventRecord(event, s) == cudaSuccess);
	REQUIRE(cudaStreamWaitEvent(branch, event, 0) == cudaSuccess);
	REQUIRE(cudaStreamIsCapturing(branch, &status) == cudaSuccess);
	CHECK(status == cudaStreamCaptureStatusActive);
	REQUIRE(fill(b, 5, 100, branch) == cudaSuccess);
	REQUIRE(cudaEventRecord(event, branch) == cudaSuccess);
	CHECK(cudaStreamEndCapture(branch, &graph) == cudaErrorStreamCaptureUnmatched);
	CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
	CHECK(graph == nullptr);

	REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
	REQUIRE(cudaEventRecord(event, s) == cudaSuccess);
	REQUIRE(cudaStreamWaitEvent(branch, event, 0) == cudaSuccess);
	REQUIRE(fill(b, 5, 100, branch) == cudaSuccess);
	REQUIRE(cudaEventRecord(event, branch) == cudaSuccess);
	REQUIRE(cudaStreamWaitEvent(s, event, 0) == cudaSuccess);
	REQUIRE(add(a, b, 100, s) == cudaSuccess);
	REQUIRE(cudaStreamEndCapture(s, &graph) == cudaSuccess);
	REQUIRE(cudaStreamIsCapturing(branch, &status) == cudaSuccess);
	CHECK(status == cudaStreamCaptureStatusNone);
	REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
	REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
	REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
	CHECK(first(a) == 6);
	cudaGraphExecDestroy(exec);
	cudaGraphDestroy(graph);
}

TEST_CASE_METHOD(Setting, "what a capture forbids, and to whom")
{
	cudaGraph_t graph = nullptr;
	void *memory = nullptr;
	cudaError_t own = cudaSuccess, other = cudaSuccess, ended = cudaSuccess;
	const auto attempt = [&](cudaStreamCaptureMode capture, cudaStreamCaptureMode thread) {
		REQUIRE(cudaThreadExchangeStreamCaptureMode(&thread) == cudaSuccess);
		REQUIRE(cudaStreamBeginCapture(s, capture) == cudaSuccess);
		own = cudaMalloc(&memory, 16);
		REQUIRE(cudaThreadExchangeStreamCaptureMode(&thread) == cudaSuccess);
		ended = cudaStreamEndCapture(s, &graph);
	};
	attempt(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeGlobal);
	CHECK(own == cudaErrorStreamCaptureUnsupported);
	CHECK(ended == cudaErrorStreamCaptureInvalidated);
	attempt(cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeThreadLocal);
	CHECK(own == cudaErrorStreamCaptureUnsupported);
	attempt(cudaStreamCaptureModeRelaxed, cudaStreamCaptureModeGlobal);
	CHECK(own == cudaSuccess);
	attempt(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeRelaxed);
	CHECK(own == cudaSuccess);
	CHECK(ended == cudaSuccess);

	const auto otherThread = [&](cudaStreamCaptureMode capture, cudaStreamCaptureMode thread) {
		REQUIRE(cudaStreamBeginCapture(s, capture) == cudaSuccess);
		std::thread([&] {
			cudaThreadExchangeStreamCaptureMode(&thread);
			other = cudaMalloc(&memory, 16);
		}).join();
		ended = cudaStreamEndCapture(s, &graph);
	};
	otherThread(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeGlobal);
	CHECK(other == cudaErrorStreamCaptureUnsupported);
	CHECK(ended == cudaErrorStreamCaptureInvalidated);
	otherThread(cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal);
	CHECK(other == cudaSuccess);
	otherThread(cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal);
	CHECK(other == cudaSuccess);
	CHECK(ended == cudaSuccess);
}

TEST_CASE_METHOD(Setting, "a capture ends only where and by whom it was begun, its events are no work to wait for")
{
	cudaGraph_t graph = nullptr;
	REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaErrorIllegalState);
	REQUIRE(cudaEventRecord(event, s) == cudaSuccess);
	cudaError_t other = cudaSuccess;
	std::thread([&] { other = cudaStreamEndCapture(s, &graph); }).join();
	CHECK(other == cudaErrorStreamCaptureWrongThread);
	CHECK(cudaEventSynchronize(event) == cudaErrorCapturedEvent);
	CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
	CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorIllegalState);
	CHECK(cudaStreamBeginCapture(cudaStreamLegacy, cudaStreamCaptureModeRelaxed) == cudaErrorStreamCaptureUnsupported);

	cudaEvent_t outside = nullptr;
	REQUIRE(cudaEventCreate(&outside) == cudaSuccess);
	REQUIRE(fill(b, 2, 100, branch) == cudaSuccess);
	REQUIRE(cudaEventRecord(outside, branch) == cudaSuccess);
	REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
	CHECK(cudaStreamWaitEvent(s, outside, 0) == cudaErrorStreamCaptureIsolation);
	CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
	cudaEventDestroy(outside);
}

TEST_CASE_METHOD(Setting, "memory allocated in a graph is there when the graph runs")
{
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t exec = nullptr;
	float *inside = nullptr;
	REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal) == cudaSuccess);
	REQUIRE(cudaMallocAsync(reinterpret_cast<void **>(&inside), 400, s) == cudaSuccess);
	REQUIRE(fill(inside, 8, 100, s) == cudaSuccess);
	REQUIRE(add(a, inside, 100, s) == cudaSuccess);
	REQUIRE(cudaFreeAsync(inside, s) == cudaSuccess);
	REQUIRE(cudaStreamEndCapture(s, &graph) == cudaSuccess);
	REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
	REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
	REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
	REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
	CHECK(first(a) == 17);
	cudaGraphExecDestroy(exec);
	cudaGraphDestroy(graph);
}

TEST_CASE_METHOD(Setting, "a user object lives as long as the graph and all its executable copies")
{
	static std::atomic<int> destroyed{0};
	destroyed = 0;
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t exec = nullptr;
	cudaUserObject_t object = nullptr;
	REQUIRE(cudaUserObjectCreate(
	            &object, nullptr, [](void *) { ++destroyed; }, 1, cudaUserObjectNoDestructorSync) == cudaSuccess);
	REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal) == cudaSuccess);
	REQUIRE(add(a, b, 100, s) == cudaSuccess);
	cudaStreamCaptureStatus status;
	cudaGraph_t underway = nullptr;
	REQUIRE(cudaStreamGetCaptureInfo(s, &status, nullptr, &underway, nullptr, nullptr, nullptr) == cudaSuccess);
	REQUIRE(cudaGraphRetainUserObject(underway, object, 1, cudaGraphUserObjectMove) == cudaSuccess);
	REQUIRE(cudaStreamEndCapture(s, &graph) == cudaSuccess);
	REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
	REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
	REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
	REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
	std::this_thread::sleep_for(std::chrono::milliseconds(20));
	CHECK(destroyed == 0);
	REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
	for (int i = 0; i < 1000 && destroyed == 0; ++i)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	CHECK(destroyed == 1);
}
