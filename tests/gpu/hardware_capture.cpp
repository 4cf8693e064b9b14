// Stream capture, graphs and their nodes, which are read and set as autoamp does.
#include "hardware.h"

#include <algorithm>

namespace hardware {

std::string duringCapture(Line &line, const std::function<int(cudaStream_t)> &ask)
{
	Session session;
	Array memory(4);
	cudaGraph_t graph = nullptr;
	size_t count = 0;
	cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeGlobal));
	CHECK(cudaMemsetAsync(memory.data(), 0, 16, session.stream));
	CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
	const int status = ask(session.stream);
	CHECK(cudaThreadExchangeStreamCaptureMode(&mode));
	const cudaError_t after = cudaMemsetAsync(memory.data(), 1, 16, session.stream);
	const cudaError_t end = cudaStreamEndCapture(session.stream, &graph);
	const bool isWhole = !after && !end && !cudaGraphGetNodes(graph, nullptr, &count) && count == 2;
	cudaGetLastError();
	if (graph)
		CHECK(cudaGraphDestroy(graph));
	line.put("status", status).put("end", end);
	return answer(status == 0 && isWhole);
}

namespace {

std::string poolNodes(Line &line)
{
	Session session;
	Problem problem(gaussian);
	problem.upload();
	cudaGraph_t graph;
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeRelaxed));
	CHECK(static_cast<cublasStatus_t>(problem.call(session.handle)));
	CHECK(cudaStreamEndCapture(session.stream, &graph));
	size_t count = 0, memory = 0;
	CHECK(cudaGraphGetNodes(graph, nullptr, &count));
	std::vector<cudaGraphNode_t> nodes(count);
	CHECK(cudaGraphGetNodes(graph, nodes.data(), &count));
	for (cudaGraphNode_t node : nodes) {
		cudaGraphNodeType type;
		CHECK(cudaGraphNodeGetType(node, &type));
		memory += type == cudaGraphNodeTypeMemAlloc || type == cudaGraphNodeTypeMemFree;
	}
	line.put("nodes", static_cast<long long>(count));
	CHECK(cudaGraphDestroy(graph));
	return answer(memory == 0);
}

// Requests that another stream may make while this thread captures in global mode.
std::string globalCapture(Line &line, cudaError_t (*ask)(cudaStream_t))
{
	Session session, other;
	cudaGraph_t graph = nullptr;
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeGlobal));
	const cudaError_t status = ask(other.stream);
	line.put("status", status);
	cudaStreamEndCapture(session.stream, &graph);
	if (graph)
		CHECK(cudaGraphDestroy(graph));
	cudaGetLastError();
	return answer(status == cudaSuccess);
}

cudaError_t makeAndDestroyPool(cudaStream_t)
{
	cudaMemPool_t pool = nullptr;
	const cudaError_t status = makePool(&pool);
	if (pool)
		cudaMemPoolDestroy(pool);
	return status;
}

int idOf(cudaStream_t stream)
{
	unsigned long long id = 0;
	return driver<int (*)(cudaStream_t, unsigned long long *)>("cuStreamGetId")(stream, &id);
}

int contextOf(cudaStream_t stream)
{
	void *context = nullptr;
	return driver<int (*)(cudaStream_t, void **)>("cuStreamGetCtx")(stream, &context);
}

int flagsOf(cudaStream_t stream)
{
	unsigned flags = 0;
	return cudaStreamGetFlags(stream, &flags);
}

int priorityOf(cudaStream_t stream)
{
	int priority = 0;
	return cudaStreamGetPriority(stream, &priority);
}

int allocate(cudaStream_t)
{
	void *memory = nullptr;
	size_t free = 0, total = 0;
	if (const cudaError_t status = cudaMemGetInfo(&free, &total))
		return status;
	const cudaError_t status = cudaMalloc(&memory, 1 << 20);
	return status ? status : cudaFree(memory);
}

int setPool(cudaStream_t)
{
	cudaMemPool_t pool = nullptr;
	uint64_t value = 0;
	if (const cudaError_t status = makePool(&pool))
		return status;
	if (const cudaError_t status = cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &value))
		return status;
	if (const cudaError_t status = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value))
		return status;
	if (const cudaError_t status = cudaMemPoolTrimTo(pool, 0))
		return status;
	return cudaMemPoolDestroy(pool);
}

// autoamp's query of the legacy stream, while a stream that waits for the legacy stream is captured.
struct LegacyQuery {
	int status;      // of the query
	bool isCaptured; // the capture ended as if there had been no query
};
LegacyQuery queryLegacy(cudaStreamCaptureMode mode)
{
	const auto ask = driver<int (*)(cudaStream_t, int *)>("cuStreamIsCapturing");
	cudaStream_t stream = nullptr;
	CHECK(cudaStreamCreate(&stream));
	Array memory(4);
	cudaGraph_t graph = nullptr;
	size_t count = 0;
	int isCapturing = 0;
	LegacyQuery query = {};
	CHECK(cudaStreamBeginCapture(stream, mode));
	CHECK(cudaMemsetAsync(memory.data(), 0, 16, stream));
	query.status = ask(nullptr, &isCapturing);
	const cudaError_t after = cudaMemsetAsync(memory.data(), 1, 16, stream);
	const cudaError_t end = cudaStreamEndCapture(stream, &graph);
	query.isCaptured = !after && !end && !cudaGraphGetNodes(graph, nullptr, &count) && count == 2;
	cudaGetLastError();
	if (graph)
		CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamDestroy(stream));
	return query;
}

template <typename Good>
std::string inAllModes(Line &line, Good isGood)
{
	bool isAlways = true;
	std::string statuses;
	for (const auto mode :
	     {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
		const LegacyQuery query = queryLegacy(mode);
		statuses += (statuses.empty() ? "" : ",") + std::to_string(query.status);
		isAlways = isAlways && isGood(query);
	}
	line.put("statuses", statuses);
	return answer(isAlways);
}

// An executable that takes the same calls, captured again, by an update.
std::string updates(Line &line)
{
	Session session;
	Problem problem(gaussian), other(gaussian, 2);
	problem.upload(), other.upload();
	const auto capture = [&] {
		cudaGraph_t graph = nullptr;
		CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeRelaxed));
		for (int i = 0; i < 4; i++)
			CHECK(static_cast<cublasStatus_t>((i % 2 ? other : problem).call(session.handle)));
		CHECK(cudaStreamEndCapture(session.stream, &graph));
		return graph;
	};
	const cudaGraph_t first = capture(), again = capture();
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaGraphInstantiate(&executable, first, 0));
	cudaGraphExecUpdateResultInfo result = {};
	const cudaError_t status = cudaGraphExecUpdate(executable, again, &result);
	line.put("status", status).put("result", result.result);
	cudaGetLastError();
	CHECK(cudaGraphExecDestroy(executable));
	CHECK(cudaGraphDestroy(first));
	CHECK(cudaGraphDestroy(again));
	return answer(status == cudaSuccess);
}

// ---- the nodes before a captured node

using Nodes = std::vector<cudaGraphNode_t>;

Nodes frontierOf(const Session &session)
{
	const auto ask =
	    driver<int (*)(cudaStream_t, int *, unsigned long long *, cudaGraph_t *, const cudaGraphNode_t **, size_t *)>(
	        "cuStreamGetCaptureInfo_v2");
	int status = 0;
	const cudaGraphNode_t *nodes = nullptr;
	size_t count = 0;
	if (ask(session.stream, &status, nullptr, nullptr, &nodes, &count))
		fail("cuStreamGetCaptureInfo_v2", "refused");
	return {nodes, nodes + count};
}

struct Dependencies {
	int status;
	Nodes nodes;
};
Dependencies dependenciesOf(cudaGraphNode_t node)
{
	const auto ask = driver<int (*)(cudaGraphNode_t, cudaGraphNode_t *, size_t *)>("cuGraphNodeGetDependencies");
	Nodes nodes(32);
	size_t count = nodes.size();
	const int status = ask(node, nodes.data(), &count);
	nodes.resize(status ? 0 : count);
	return {status, nodes};
}

// Three fills, one after the other; before the last one an edge from the first or from the second is added.
struct Added {
	int status;       // of adding
	Nodes before;     // nodes before the last one
	bool isDone;      // the graph ran
	Nodes first, two; // one node of each
};
Added addEdge(Line &line, bool isTwice)
{
	const auto add =
	    driver<int (*)(cudaStream_t, cudaGraphNode_t *, size_t, unsigned)>("cuStreamUpdateCaptureDependencies");
	Session session;
	Array memory(4);
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t exec = nullptr;
	const auto fill = [&](int value) {
		CHECK(cudaMemsetAsync(memory.data(), value, 16, session.stream));
		return frontierOf(session);
	};
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeRelaxed));
	Added added = {};
	added.first = fill(1);
	added.two = fill(2);
	Nodes which = isTwice ? added.two : added.first;
	added.status = add(session.stream, which.data(), 1, 0);
	const cudaError_t last = cudaMemsetAsync(memory.data(), 0, 16, session.stream);
	if (!last)
		added.before = dependenciesOf(frontierOf(session)[0]).nodes;
	added.isDone = !last && !cudaStreamEndCapture(session.stream, &graph) && !cudaGraphInstantiate(&exec, graph, 0) &&
	               !cudaGraphLaunch(exec, session.stream) && !cudaStreamSynchronize(session.stream);
	cudaGetLastError();
	memory.download();
	added.isDone = added.isDone && memory[0] == 0;
	if (exec)
		CHECK(cudaGraphExecDestroy(exec));
	if (graph)
		CHECK(cudaGraphDestroy(graph));
	line.put("status", added.status).put("edges", static_cast<long long>(added.before.size()));
	return added;
}

// A captured product: reads the node on which the next one depends, and all nodes before it.
std::string capturedProduct(Line &line)
{
	Session session;
	Problem problem(gaussian);
	problem.upload();
	cudaGraph_t graph;
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeRelaxed));
	for (int i = 0; i < 2; i++)
		CHECK(static_cast<cublasStatus_t>(problem.call(session.handle)));
	const Nodes last = frontierOf(session);
	Nodes open = last;
	int status = 0;
	for (size_t i = 0; i < open.size(); i++) {
		const Dependencies before = dependenciesOf(open[i]);
		status = status ? status : before.status;
		open.insert(open.end(), before.nodes.begin(), before.nodes.end());
	}
	line.put("nodes", static_cast<long long>(open.size())).put("status", status);
	CHECK(cudaStreamEndCapture(session.stream, &graph));
	CHECK(cudaGraphDestroy(graph));
	return answer(last.size() == 1 && status == 0 && open.size() > 1);
}

} // namespace

Rows captureRows()
{
	return {
	    {"capture.default_workspace_adds_no_memory_nodes", no, recorded, shared, poolNodes},
	    {"capture.global_allows_synchronizing_another_stream", no, recorded, shared,
	     [](Line &line) { return globalCapture(line, cudaStreamSynchronize); }},
	    {"capture.global_allows_making_a_pool", no, recorded, shared,
	     [](Line &line) { return globalCapture(line, makeAndDestroyPool); }},
	    {"capture.relaxed_allows_querying_the_id_of_the_stream", no, recorded, shared,
	     [](Line &line) { return duringCapture(line, idOf); }},
	    {"capture.relaxed_allows_querying_the_context_of_the_stream", yes, recorded, shared,
	     [](Line &line) { return duringCapture(line, contextOf); }},
	    {"capture.relaxed_allows_querying_the_flags_of_the_stream", no, recorded, shared,
	     [](Line &line) { return duringCapture(line, flagsOf); }},
	    {"capture.relaxed_allows_querying_the_priority_of_the_stream", yes, recorded, shared,
	     [](Line &line) { return duringCapture(line, priorityOf); }},
	    {"capture.relaxed_allows_allocating_memory", yes, needed, shared,
	     [](Line &line) { return duringCapture(line, allocate); }},
	    {"capture.relaxed_allows_setting_and_trimming_a_pool", yes, needed, shared,
	     [](Line &line) { return duringCapture(line, setPool); }},
	    {"capture.a_query_of_the_legacy_stream_returns_an_error", yes, recorded, shared,
	     [](Line &line) { return inAllModes(line, [](const LegacyQuery &query) { return query.status != 0; }); }},
	    {"capture.a_query_of_the_legacy_stream_keeps_the_capture_valid", yes, needed, shared,
	     [](Line &line) { return inAllModes(line, [](const LegacyQuery &query) { return query.isCaptured; }); }},
	    {"capture.the_same_products_captured_again_update_an_executable", yes, recorded, shared, updates},
	    {"capture.a_product_ends_in_one_node_and_tells_its_edges", yes, recorded, shared, capturedProduct},
	    {"capture.an_edge_that_is_implied_may_be_added", yes, needed, shared,
	     [](Line &line) {
		     const Added added = addEdge(line, false);
		     return answer(added.status == 0 && added.isDone);
	     }},
	    {"capture.an_edge_that_is_implied_is_kept", yes, recorded, shared,
	     [](Line &line) {
		     const Added added = addEdge(line, false);
		     return answer(std::count(added.before.begin(), added.before.end(), added.first[0]) == 1);
	     }},
	    {"capture.an_edge_may_be_added_twice", yes, recorded, shared,
	     [](Line &line) {
		     const Added added = addEdge(line, true);
		     return answer(added.status == 0 && added.isDone);
	     }},
	};
}

} // namespace hardware
