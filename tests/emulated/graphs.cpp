#include "kernels.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cuda_runtime.h>
#include <functional>
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
	// The effect of `work` in `s`.
	template <class Work>
	cudaGraph_t captured(Work work) const
	{
		cudaGraph_t graph = nullptr;
		REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed) == cudaSuccess);
		work();
		REQUIRE(cudaStreamEndCapture(s, &graph) == cudaSuccess);
		return graph;
	}
	void run(cudaGraph_t graph) const
	{
		cudaGraphExec_t exec = nullptr;
		REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
		REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
		REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
		REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
		REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
	}
	cudaStream_t s = nullptr, branch = nullptr;
	cudaEvent_t event = nullptr;
	float *a = nullptr, *b = nullptr;

	// The nodes on which the next captured node depends, and their dependencies.
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
	REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);                    // launched work still runs
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

TEST_CASE_METHOD(Setting, "calls that a capture forbids, and to which threads")
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

	for (const bool isGlobal : {true, false}) { // waiting for a stream that does not capture
		REQUIRE(cudaStreamBeginCapture(s, isGlobal ? cudaStreamCaptureModeGlobal : cudaStreamCaptureModeRelaxed) ==
		        cudaSuccess);
		CHECK(cudaStreamSynchronize(branch) == (isGlobal ? cudaErrorStreamCaptureUnsupported : cudaSuccess));
		CHECK(cudaStreamEndCapture(s, &graph) == (isGlobal ? cudaErrorStreamCaptureInvalidated : cudaSuccess));
	}
}

TEST_CASE_METHOD(Setting, "a capture ends only on its stream and in its thread; its events cannot be waited for")
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

TEST_CASE_METHOD(Setting, "edges of programmatic launches are kept")
{
	cudaGraph_t graph = nullptr;
	REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal) == cudaSuccess);
	REQUIRE(add(a, b, 100, s) == cudaSuccess);
	cudaGraphNode_t one = frontier(s)[0];
	cudaGraphEdgeData early = {};
	early.from_port = cudaGraphKernelNodePortProgrammatic;
	early.type = cudaGraphDependencyTypeProgrammatic;
	cudaGraphEdgeData wrong = early;
	wrong.to_port = 1;
	CHECK(cudaStreamUpdateCaptureDependencies(s, &one, &wrong, 1, cudaStreamSetCaptureDependencies) ==
	      cudaErrorInvalidValue);
	REQUIRE(cudaStreamUpdateCaptureDependencies(s, &one, &early, 1, cudaStreamSetCaptureDependencies) == cudaSuccess);
	cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
	const cudaGraphNode_t *nodes = nullptr;
	const cudaGraphEdgeData *edges = nullptr;
	size_t count = 0;
	// The query without edge data cannot report it.
	CHECK(cudaStreamGetCaptureInfo(s, &status, nullptr, nullptr, &nodes, nullptr, &count) == cudaErrorLossyQuery);
	REQUIRE(cudaStreamGetCaptureInfo(s, &status, nullptr, nullptr, &nodes, &edges, &count) == cudaSuccess);
	REQUIRE(count == 1);
	REQUIRE(edges);
	CHECK(nodes[0] == one);
	CHECK(edges[0].type == cudaGraphDependencyTypeProgrammatic);
	REQUIRE(add(a, b, 100, s) == cudaSuccess);
	REQUIRE(cudaStreamGetCaptureInfo(s, &status, nullptr, nullptr, &nodes, &edges, &count) == cudaSuccess);
	CHECK(edges == nullptr); // the node after it is a full dependency
	const cudaGraphNode_t two = nodes[0];
	cudaGraphNode_t from = nullptr;
	cudaGraphEdgeData data = {};
	CHECK(cudaGraphNodeGetDependencies(two, &from, nullptr, &count) == cudaErrorLossyQuery);
	REQUIRE(cudaGraphNodeGetDependencies(two, &from, &data, &count) == cudaSuccess);
	CHECK(from == one);
	CHECK(data.from_port == cudaGraphKernelNodePortProgrammatic);
	REQUIRE(cudaStreamEndCapture(s, &graph) == cudaSuccess);
	cudaGraph_t clone = nullptr;
	REQUIRE(cudaGraphClone(&clone, graph) == cudaSuccess);
	CHECK(cudaGraphRemoveDependencies(graph, &one, &two, nullptr, 1) == cudaErrorInvalidValue); // another edge
	CHECK(cudaGraphRemoveDependencies(graph, &one, &two, &early, 1) == cudaSuccess);
	CHECK(dependencies(two).empty());
	REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
	run(clone);
	CHECK(first(a) == 3);
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
	CHECK(cudaGraphRemoveDependencies(graph, &two, &three, nullptr, 1) == cudaErrorInvalidValue); // already removed
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
	CHECK(cudaGraphRemoveDependencies(graph, &nodes[0], &nodes[1], nullptr, 1) == cudaErrorNotSupported);
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

TEST_CASE_METHOD(Setting, "an executable graph takes a graph of its shape that allocates")
{
	const auto graphOf = [&](float value) {
		return captured([&] {
			float *inside = nullptr;
			REQUIRE(cudaMallocAsync(reinterpret_cast<void **>(&inside), 400, s) == cudaSuccess);
			REQUIRE(fill(inside, value, 100, s) == cudaSuccess);
			REQUIRE(add(a, inside, 100, s) == cudaSuccess);
			REQUIRE(cudaFreeAsync(inside, s) == cudaSuccess);
		});
	};
	REQUIRE(fill(a, 0, 100, s) == cudaSuccess);
	cudaGraphExec_t exec = nullptr;
	cudaGraphExecUpdateResultInfo info;
	for (const float value : {2.f, 3.f}) {
		const cudaGraph_t now = graphOf(value);
		if (!exec)
			REQUIRE(cudaGraphInstantiate(&exec, now, 0) == cudaSuccess);
		REQUIRE(cudaGraphExecUpdate(exec, now, &info) == cudaSuccess);
		REQUIRE(cudaGraphDestroy(now) == cudaSuccess);
		REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
		REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
	}
	CHECK(first(a) == 5);
	REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
}

TEST_CASE_METHOD(Setting,
                 "an executable graph takes the arguments of another one of its shape; earlier launches keep theirs")
{
	static std::atomic<int> destroyed{0};
	destroyed = 0;
	const auto graphOf = [&](float value) {
		cudaUserObject_t object = nullptr;
		const cudaGraph_t graph = captured([&] {
			REQUIRE(fill(b, value, 100, s) == cudaSuccess);
			REQUIRE(add(a, b, 100, s) == cudaSuccess);
		});
		REQUIRE(cudaUserObjectCreate(
		            &object, nullptr, [](void *) { ++destroyed; }, 1, cudaUserObjectNoDestructorSync) == cudaSuccess);
		REQUIRE(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove) == cudaSuccess);
		return graph;
	};
	const auto awaits = [](int count) {
		for (int i = 0; i < 1000 && destroyed < count; ++i)
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
		return destroyed == count;
	};
	cudaGraph_t first = graphOf(10), second = graphOf(100);
	cudaGraphExec_t exec = nullptr;
	cudaGraphExecUpdateResultInfo info;
	REQUIRE(cudaGraphInstantiate(&exec, first, 0) == cudaSuccess);
	REQUIRE(cudaGraphDestroy(first) == cudaSuccess);
	REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
	REQUIRE(cudaGraphExecUpdate(exec, second, &info) == cudaSuccess);
	CHECK(info.result == cudaGraphExecUpdateSuccess);
	CHECK(info.errorNode == nullptr);
	REQUIRE(cudaGraphDestroy(second) == cudaSuccess);
	REQUIRE(cudaGraphLaunch(exec, branch) == cudaSuccess); // after the first launch
	REQUIRE(cudaStreamSynchronize(branch) == cudaSuccess);
	CHECK(this->first(a) == 111);
	CHECK(awaits(1)); // the first graph's object is destroyed, the second's is not
	REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
	CHECK(awaits(2));
}

TEST_CASE_METHOD(Setting, "an executable graph keeps its shape")
{
	std::vector<float> host(100);
	const auto other = [&] { // does the same with another structure
		REQUIRE(cudaEventRecord(event, s) == cudaSuccess);
		REQUIRE(cudaStreamWaitEvent(branch, event, 0) == cudaSuccess);
		REQUIRE(fill(a, 2, 100, s) == cudaSuccess);
		REQUIRE(cudaMemcpyAsync(b, a, 400, cudaMemcpyDeviceToDevice, branch) == cudaSuccess);
		REQUIRE(cudaEventRecord(event, branch) == cudaSuccess);
		REQUIRE(cudaStreamWaitEvent(s, event, 0) == cudaSuccess);
	};
	cudaStream_t there = nullptr;
	float *remote = nullptr;
	REQUIRE(cudaSetDevice(1) == cudaSuccess);
	REQUIRE(cudaStreamCreate(&there) == cudaSuccess);
	REQUIRE(cudaMalloc(reinterpret_cast<void **>(&remote), 400) == cudaSuccess);
	REQUIRE(cudaSetDevice(0) == cudaSuccess);
	const struct {
		cudaGraphExecUpdateResult result;
		int errorNode; // -1: none
		std::function<void()> work;
	} rows[] = {
	    {cudaGraphExecUpdateSuccess, -1,
	     [&] {
		     fill(b, 3, 50, s);
		     cudaMemcpyAsync(a, b, 40, cudaMemcpyDeviceToDevice, s);
	     }},
	    {cudaGraphExecUpdateSuccess, -1, // another kernel, which drivers since 11.2 accept
	     [&] {
		     add(a, b, 100, s);
		     cudaMemcpyAsync(b, a, 400, cudaMemcpyDeviceToDevice, s);
	     }},
	    {cudaGraphExecUpdateErrorTopologyChanged, -1, [&] { fill(a, 2, 100, s); }},
	    {cudaGraphExecUpdateErrorNodeTypeChanged, 1,
	     [&] {
		     fill(a, 2, 100, s);
		     add(a, b, 100, s);
	     }},
	    {cudaGraphExecUpdateErrorTopologyChanged, 1, other},
	    {cudaGraphExecUpdateErrorParametersChanged, 1,
	     [&] {
		     fill(a, 2, 100, s);
		     cudaMemcpyAsync(host.data(), a, 400, cudaMemcpyDeviceToHost, s);
	     }},
	    {cudaGraphExecUpdateErrorParametersChanged, 1,
	     [&] {
		     fill(a, 2, 100, s);
		     cudaMemcpyAsync(remote, a, 400, cudaMemcpyDeviceToDevice, s);
	     }},
	};
	for (const auto &row : rows) {
		INFO(&row - rows);
		cudaGraph_t graph = captured([&] {
			REQUIRE(fill(a, 2, 100, s) == cudaSuccess);
			REQUIRE(cudaMemcpyAsync(b, a, 400, cudaMemcpyDeviceToDevice, s) == cudaSuccess);
		});
		cudaGraph_t changed = captured(row.work);
		cudaGraphExec_t exec = nullptr;
		cudaGraphExecUpdateResultInfo info;
		REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
		CHECK(cudaGraphExecUpdate(exec, changed, &info) ==
		      (row.result ? cudaErrorGraphExecUpdateFailure : cudaSuccess));
		CHECK(info.result == row.result);
		cudaGraphNode_t nodes[3] = {};
		size_t count = 3;
		REQUIRE(cudaGraphGetNodes(changed, nodes, &count) == cudaSuccess);
		CHECK(info.errorNode == (row.errorNode < 0 ? nullptr : nodes[row.errorNode]));
		REQUIRE(fill(a, 0, 100, s) == cudaSuccess);
		REQUIRE(fill(b, 0, 100, s) == cudaSuccess);
		REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
		REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
		if (row.result) // unchanged
			CHECK(first(b) == 2);
		cudaGraphExecDestroy(exec);
		cudaGraphDestroy(graph);
		cudaGraphDestroy(changed);
	}
	// The same nodes, with one of them after another one.
	const auto threeNodes = [&](bool inLine) {
		return captured([&] {
			REQUIRE(fill(a, 2, 100, s) == cudaSuccess);
			REQUIRE(cudaEventRecord(event, s) == cudaSuccess);
			REQUIRE(cudaStreamWaitEvent(branch, event, 0) == cudaSuccess);
			REQUIRE(fill(b, 2, 100, s) == cudaSuccess);
			REQUIRE(fill(b, 3, 100, inLine ? s : branch) == cudaSuccess);
			REQUIRE(cudaEventRecord(event, branch) == cudaSuccess);
			REQUIRE(cudaStreamWaitEvent(s, event, 0) == cudaSuccess);
		});
	};
	const cudaGraph_t line = threeNodes(true), forked = threeNodes(false);
	cudaGraphExec_t three = nullptr;
	cudaGraphExecUpdateResultInfo mismatch;
	cudaGraphNode_t nodes[3];
	size_t count = 3;
	REQUIRE(cudaGraphInstantiate(&three, line, 0) == cudaSuccess);
	REQUIRE(cudaGraphGetNodes(forked, nodes, &count) == cudaSuccess);
	CHECK(cudaGraphExecUpdate(three, forked, &mismatch) == cudaErrorGraphExecUpdateFailure);
	CHECK(mismatch.result == cudaGraphExecUpdateErrorTopologyChanged);
	CHECK((mismatch.errorNode == nodes[2] && mismatch.errorFromNode == nodes[0]));
	// The same kernel on another device.
	REQUIRE(cudaSetDevice(1) == cudaSuccess);
	cudaGraph_t graph = nullptr;
	REQUIRE(cudaStreamBeginCapture(there, cudaStreamCaptureModeRelaxed) == cudaSuccess);
	REQUIRE(fill(remote, 1, 100, there) == cudaSuccess);
	REQUIRE(cudaStreamEndCapture(there, &graph) == cudaSuccess);
	REQUIRE(cudaSetDevice(0) == cudaSuccess);
	const cudaGraph_t here = captured([&] { REQUIRE(fill(a, 1, 100, s) == cudaSuccess); });
	cudaGraphExec_t exec = nullptr;
	cudaGraphExecUpdateResultInfo info;
	REQUIRE(cudaGraphInstantiate(&exec, here, 0) == cudaSuccess);
	CHECK(cudaGraphExecUpdate(exec, graph, &info) == cudaErrorGraphExecUpdateFailure);
	CHECK(info.result == cudaGraphExecUpdateErrorUnsupportedFunctionChange);
	CHECK(cudaGraphExecUpdate(exec, nullptr, &info) == cudaErrorInvalidValue);
}

TEST_CASE_METHOD(Setting, "graphs put together from others")
{
	cudaGraph_t graph = nullptr, clone = nullptr;
	cudaGraph_t filling = captured([&] { REQUIRE(fill(b, 4, 100, s) == cudaSuccess); });
	cudaGraph_t adding = captured([&] {
		REQUIRE(add(a, b, 100, s) == cudaSuccess);
		REQUIRE(cudaMemsetAsync(b, 0, 400, s) == cudaSuccess);
	});
	cudaGraphNode_t child = nullptr, empty = nullptr, last = nullptr;
	REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
	REQUIRE(cudaGraphAddChildGraphNode(&child, graph, nullptr, 0, filling) == cudaSuccess);
	REQUIRE(cudaGraphAddEmptyNode(&empty, graph, &child, 1) == cudaSuccess);
	REQUIRE(cudaGraphAddChildGraphNode(&last, graph, &empty, 1, adding) == cudaSuccess);
	cudaGraphNodeType type = cudaGraphNodeTypeCount;
	CHECK((cudaGraphNodeGetType(child, &type) == cudaSuccess && type == cudaGraphNodeTypeGraph));
	CHECK((cudaGraphNodeGetType(empty, &type) == cudaSuccess && type == cudaGraphNodeTypeEmpty));

	const cudaGraphNode_t twice[] = {child, child}, none[] = {nullptr};
	CHECK(cudaGraphAddEmptyNode(&empty, graph, twice, 2) == cudaErrorInvalidValue);
	CHECK(cudaGraphAddEmptyNode(&empty, graph, none, 1) == cudaErrorInvalidValue);
	CHECK(cudaGraphAddEmptyNode(&empty, graph, nullptr, 1) == cudaErrorInvalidValue);
	CHECK(cudaGraphAddEmptyNode(&empty, filling, &child, 1) == cudaErrorInvalidValue);

	// Nodes captured into it depend on the named nodes; clones and children are independent.
	REQUIRE(cudaStreamBeginCaptureToGraph(s, graph, &last, nullptr, 1, cudaStreamCaptureModeRelaxed) == cudaSuccess);
	REQUIRE(add(a, b, 100, s) == cudaSuccess);
	REQUIRE(fill(b, 7, 100, s) == cudaSuccess);
	cudaGraph_t same = nullptr;
	REQUIRE(cudaStreamEndCapture(s, &same) == cudaSuccess);
	CHECK(same == graph);
	REQUIRE(cudaGraphClone(&clone, graph) == cudaSuccess);
	REQUIRE(cudaGraphAddChildGraphNode(&child, clone, nullptr, 0, graph) == cudaSuccess);
	size_t count = 0;
	CHECK((cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess && count == 5));
	CHECK((cudaGraphGetNodes(clone, nullptr, &count) == cudaSuccess && count == 6));
	cudaGraphExec_t exec = nullptr; // an update compares children
	cudaGraphExecUpdateResultInfo info;
	for (const cudaGraph_t inner : {filling, adding}) {
		cudaGraph_t outer = nullptr;
		REQUIRE(cudaGraphCreate(&outer, 0) == cudaSuccess);
		REQUIRE(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, inner) == cudaSuccess);
		if (!exec)
			REQUIRE(cudaGraphInstantiate(&exec, outer, 0) == cudaSuccess);
		CHECK(cudaGraphExecUpdate(exec, outer, &info) ==
		      (inner == filling ? cudaSuccess : cudaErrorGraphExecUpdateFailure));
		cudaGraphDestroy(outer);
	}
	REQUIRE(cudaGraphDestroy(filling) == cudaSuccess);
	REQUIRE(cudaGraphDestroy(adding) == cudaSuccess);
	run(graph); // and destroys it
	CHECK(first(a) == 5);
	CHECK(first(b) == 7);
	run(clone);
	CHECK(first(a) == 13);

	float *inside = nullptr;
	cudaGraph_t holding = captured([&] {
		REQUIRE(cudaMallocAsync(reinterpret_cast<void **>(&inside), 400, s) == cudaSuccess);
		REQUIRE(cudaFreeAsync(inside, s) == cudaSuccess);
	});
	REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
	CHECK(cudaGraphAddChildGraphNode(&child, graph, nullptr, 0, holding) == cudaErrorNotSupported);
	CHECK(cudaStreamBeginCaptureToGraph(s, graph, &last, nullptr, 1, cudaStreamCaptureModeRelaxed) ==
	      cudaErrorInvalidValue);
	cudaGraphDestroy(holding);
	cudaGraphDestroy(graph);
}

TEST_CASE_METHOD(Setting, "the graph of a child node can change, for itself and for an executable graph")
{
	cudaGraph_t graph = nullptr, inside = nullptr, none = nullptr;
	cudaGraph_t filling = captured([&] { REQUIRE(fill(b, 4, 100, s) == cudaSuccess); });
	cudaGraph_t other = captured([&] { REQUIRE(fill(b, 9, 100, s) == cudaSuccess); });
	cudaGraph_t adding = captured([&] { REQUIRE(add(a, b, 100, s) == cudaSuccess); });
	cudaGraphNode_t child = nullptr, empty = nullptr, root = nullptr, found = nullptr, added = nullptr;
	REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
	REQUIRE(cudaGraphAddChildGraphNode(&child, graph, nullptr, 0, filling) == cudaSuccess);
	REQUIRE(cudaGraphAddEmptyNode(&empty, graph, &child, 1) == cudaSuccess);
	size_t count = 0, one = 1;
	CHECK((cudaGraphGetRootNodes(graph, nullptr, &count) == cudaSuccess && count == 1));
	CHECK((cudaGraphGetRootNodes(graph, &root, &one) == cudaSuccess && root == child));
	CHECK((cudaGraphNodeGetDependentNodes(child, &found, nullptr, &one) == cudaSuccess && found == empty));
	CHECK((cudaGraphNodeGetDependentNodes(empty, nullptr, nullptr, &count) == cudaSuccess && count == 0));
	CHECK(cudaGraphChildGraphNodeGetGraph(empty, &none) == cudaErrorInvalidValue);
	REQUIRE(cudaGraphChildGraphNodeGetGraph(child, &inside) == cudaSuccess);
	CHECK((cudaGraphGetNodes(inside, nullptr, &count) == cudaSuccess && count == 1));

	const auto launched = [&](cudaGraphExec_t exec) {
		REQUIRE(cudaGraphLaunch(exec, s) == cudaSuccess);
		REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
		return std::pair(first(a), first(b));
	};
	cudaGraphExec_t before = nullptr, after = nullptr;
	REQUIRE(cudaGraphInstantiate(&before, graph, 0) == cudaSuccess);
	REQUIRE(cudaGraphGetRootNodes(inside, &root, &one) == cudaSuccess);
	REQUIRE(cudaGraphAddChildGraphNode(&added, inside, &root, 1, adding) == cudaSuccess);
	CHECK((cudaGraphNodeGetDependentNodes(root, &found, nullptr, &one) == cudaSuccess && found == added));
	REQUIRE(cudaGraphInstantiate(&after, graph, 0) == cudaSuccess);
	CHECK(launched(before) == std::pair(1.0F, 4.0F));
	CHECK(launched(after) == std::pair(5.0F, 4.0F));

	CHECK(cudaGraphExecChildGraphNodeSetParams(before, child, inside) == cudaErrorInvalidValue); // has two nodes
	CHECK(cudaGraphExecChildGraphNodeSetParams(before, empty, other) == cudaErrorInvalidValue);
	cudaGraph_t twin = nullptr; // its node has the same place, but the graph was not instantiated
	REQUIRE(cudaGraphClone(&twin, graph) == cudaSuccess);
	REQUIRE(cudaGraphGetRootNodes(twin, &root, &one) == cudaSuccess);
	CHECK(cudaGraphExecChildGraphNodeSetParams(before, root, other) == cudaErrorInvalidValue);
	CHECK(cudaGraphExecChildGraphNodeSetParams(before, child, other) == cudaSuccess);
	CHECK(launched(before) == std::pair(5.0F, 9.0F));
	CHECK(launched(after) == std::pair(9.0F, 4.0F));

	CHECK(cudaGraphDestroy(inside) == cudaErrorInvalidValue); // the node owns it
	for (cudaGraph_t made : {graph, twin, filling, other, adding})
		CHECK(cudaGraphDestroy(made) == cudaSuccess);
	CHECK(cudaGraphGetNodes(inside, nullptr, &count) == cudaErrorInvalidValue);
	for (cudaGraphExec_t exec : {before, after})
		CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
}
