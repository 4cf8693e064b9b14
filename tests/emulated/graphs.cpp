#include "kernels.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cuda_runtime.h>
#include <thread>
#include <vector>

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

	// What the next captured node comes after, and what that comes after.
	std::vector<cudaGraphNode_t> frontier(cudaStream_t stream) const
	{
		cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
		const cudaGraphNode_t *nodes = nullptr;
		size_t count = 0;
		REQUIRE(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, nullptr, &count) == cudaSuccess);
		return {nodes, nodes + count};
	}
	static std::vector<cudaGraphNode_t> dependencies(cudaGraphNode_t node)
	{
		std::vector<cudaGraphNode_t> found(8, node);
		size_t count = 0;
		REQUIRE(cudaGraphNodeGetDependencies(node, nullptr, nullptr, &count) == cudaSuccess);
		size_t room = found.size();
		std::vector<cudaGraphEdgeData> edges(room);
		REQUIRE(cudaGraphNodeGetDependencies(node, found.data(), edges.data(), &room) == cudaSuccess);
		CHECK(room == count);
		for (size_t i = count; i < found.size(); ++i)
			CHECK(found[i] == nullptr);
		found.resize(count);
		return found;
	}
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

TEST_CASE_METHOD(Setting, "the edges of a graph can be asked for, added to while it is captured, and taken away")
{
	cudaGraph_t graph = nullptr;
	REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal) == cudaSuccess);
	CHECK(frontier(s).empty());
	REQUIRE(add(a, b, 100, s) == cudaSuccess);
	cudaGraphNode_t one = frontier(s)[0];
	CHECK(dependencies(one).empty());
	REQUIRE(add(a, b, 100, s) == cudaSuccess);
	const cudaGraphNode_t two = frontier(s)[0];
	CHECK(dependencies(two) == std::vector{one});
	REQUIRE(cudaStreamUpdateCaptureDependencies(s, &one, nullptr, 1, 0) == cudaSuccess);
	CHECK(frontier(s) == std::vector{two, one});
	REQUIRE(cudaStreamUpdateCaptureDependencies(s, &one, nullptr, 1, 0) == cudaSuccess);
	CHECK(frontier(s).size() == 2); // a set
	REQUIRE(add(a, b, 100, s) == cudaSuccess);
	const cudaGraphNode_t three = frontier(s)[0];
	CHECK(dependencies(three) == std::vector{two, one});
	size_t room = 1;
	cudaGraphNode_t found = nullptr;
	CHECK(cudaGraphNodeGetDependencies(three, &found, nullptr, &room) == cudaSuccess);
	CHECK(room == 1);
	CHECK(found == two);
	REQUIRE(cudaStreamEndCapture(s, &graph) == cudaSuccess);
	CHECK(cudaStreamUpdateCaptureDependencies(s, &one, nullptr, 1, 0) == cudaErrorIllegalState);

	CHECK(cudaGraphRemoveDependencies(graph, &two, &three, nullptr, 1) == cudaSuccess);
	CHECK(dependencies(three) == std::vector{one});
	CHECK(cudaGraphRemoveDependencies(graph, &two, &three, nullptr, 1) == cudaErrorInvalidValue); // there is none
	CHECK(cudaGraphRemoveDependencies(graph, &one, nullptr, nullptr, 1) == cudaErrorInvalidValue);
	CHECK(cudaGraphNodeGetDependencies(one, nullptr, nullptr, nullptr) == cudaErrorInvalidValue);
	cudaGraph_t clone = nullptr;
	REQUIRE(cudaGraphClone(&clone, graph) == cudaSuccess);
	CHECK(cudaGraphRemoveDependencies(clone, &one, &three, nullptr, 1) == cudaErrorInvalidValue); // other nodes
	CHECK(cudaGraphDestroy(graph) == cudaSuccess);
	size_t count = 1;
	CHECK(cudaGraphNodeGetDependencies(one, nullptr, nullptr, &count) == cudaErrorInvalidValue);
	cudaGraphExec_t exec = nullptr;
	REQUIRE(cudaGraphInstantiate(&exec, clone, 0) == cudaSuccess);
	CHECK(cudaGraphDestroy(clone) == cudaSuccess);
	REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
	CHECK(first(a) == 4);
	CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
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
	cudaGraph_t clone = nullptr;
	CHECK(cudaGraphClone(&clone, graph) == cudaErrorNotSupported);
	cudaGraphNode_t nodes[2];
	size_t count = 2;
	REQUIRE(cudaGraphGetNodes(graph, nodes, &count) == cudaSuccess);
	CHECK(cudaGraphRemoveDependencies(graph, &nodes[0], &nodes[1], nullptr, 1) == cudaErrorInvalidValue);
	REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
	REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
	REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
	REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
	CHECK(first(a) == 17);
	cudaGraphExecDestroy(exec);
	cudaGraphDestroy(graph);
}

TEST_CASE_METHOD(Setting, "a user object lives as long as the graph and all its copies, executable or not")
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
	cudaGraph_t clone = nullptr;
	REQUIRE(cudaGraphClone(&clone, graph) == cudaSuccess);
	REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
	REQUIRE(cudaGraphInstantiate(&exec, clone, 0) == cudaSuccess);
	REQUIRE(cudaGraphDestroy(clone) == cudaSuccess);
	REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
	REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
	std::this_thread::sleep_for(std::chrono::milliseconds(20));
	CHECK(destroyed == 0);
	REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
	for (int i = 0; i < 1000 && destroyed == 0; ++i)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	CHECK(destroyed == 1);
}
