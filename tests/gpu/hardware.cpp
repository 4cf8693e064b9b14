// Questions that the vendor's documents leave open and only a device can answer, without autoamp. Each has the answer,
// that of the emulated device, and whether autoamp needs that answer. If it does, another one is a failure and not just
// a difference to record.
#include "tests/preload/clients/harness.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <dlfcn.h>
#include <thread>

using namespace client;

namespace {

constexpr cublasOperation_t N = CUBLAS_OP_N;

void answer(Line &line, bool found, bool isEmulatedSo, bool isNeeded = false)
{
	line.put("answer", found ? "yes" : "no").put("emulated", isEmulatedSo ? "yes" : "no").put("needed", isNeeded);
	line.require(found == isEmulatedSo || !isNeeded, "the product needs the other answer");
}

Answer product(Line &line, Problem &&problem)
{
	Session session;
	problem.upload();
	line.put("status", problem.call(session.handle, session.light));
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	const Answer answer = problem.compare();
	line.put("eta", answer.eta).put("nonfinite", answer.nonfinite);
	return answer;
}

// 16-bit operands of one value each, one element of the result.
float ofHalves(uint16_t a, uint16_t b, int k)
{
	constexpr int n = 16;
	Session session;
	std::vector<uint16_t> host(static_cast<size_t>(n * k));
	void *A = nullptr, *B = nullptr;
	for (const auto &[value, memory] : {std::pair(a, &A), std::pair(b, &B)}) {
		host.assign(host.size(), value);
		CHECK(cudaMalloc(memory, host.size() * 2));
		CHECK(cudaMemcpy(*memory, host.data(), host.size() * 2, cudaMemcpyHostToDevice));
	}
	CHECK(cudaDeviceSynchronize());
	Array c(n * n);
	const float one = 1, zero = 0;
	CHECK(cublasGemmEx(session.handle, N, N, n, n, k, &one, A, CUDA_R_16F, n, B, CUDA_R_16F, k, &zero, c.data(),
	                   CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
	CHECK(cudaStreamSynchronize(session.stream));
	c.download();
	CHECK(cudaFree(A));
	CHECK(cudaFree(B));
	return c[0];
}

constexpr uint16_t oneHalf = 0x3c00, leastHalf = 0x0001, mostHalf = 0x7bff;
constexpr Spec gaussian = {.m = 256, .n = 256, .k = 512};

Spec with(Spec spec, auto change)
{
	change(spec);
	return spec;
}

// cublasLt: an algorithm that was promised an alignment of 16 bytes, with an operand aligned to 4.
void misaligned(Line &line)
{
	Session session;
	constexpr int n = 256;
	Array a(n * n, 1), b(n * n), d(n * n);
	for (Array *array : {&a, &b, &d}) {
		for (size_t i = 0; i < array->size(); i++)
			(*array)[i] = 1;
		array->upload();
	}
	cublasLtMatmulDesc_t description;
	cublasLtMatrixLayout_t layout;
	cublasLtMatmulPreference_t preference;
	CHECK(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F));
	CHECK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, n, n, n));
	CHECK(cublasLtMatmulPreferenceCreate(&preference));
	cublasLtMatmulHeuristicResult_t result = {};
	int found = 0;
	CHECK(cublasLtMatmulAlgoGetHeuristic(session.light, description, layout, layout, layout, layout, preference, 1,
	                                     &result, &found));
	const float one = 1, zero = 0;
	const auto status = cublasLtMatmul(session.light, description, &one, a.data(), layout, b.data(), layout, &zero,
	                                   d.data(), layout, d.data(), layout, &result.algo, nullptr, 0, session.stream);
	const auto after = cudaStreamSynchronize(session.stream);
	line.put("status", status).put("after", after);
	answer(line, status == CUBLAS_STATUS_INVALID_VALUE, true);
	if (after) // the context is broken: all later calls would fail
		std::fflush(nullptr), std::_Exit(0);
	CHECK(cublasLtMatmulPreferenceDestroy(preference));
	CHECK(cublasLtMatrixLayoutDestroy(layout));
	CHECK(cublasLtMatmulDescDestroy(description));
}

void poolNodes(Line &line)
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
	answer(line, memory == 0, true);
	CHECK(cudaGraphDestroy(graph));
}

// Requests that another stream may make while this thread captures in global mode.
void globalCapture(Line &line, bool isEmulatedSo, const std::function<cudaError_t(cudaStream_t)> &ask)
{
	Session session, other;
	cudaGraph_t graph = nullptr;
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeGlobal));
	const cudaError_t status = ask(other.stream);
	line.put("status", status);
	answer(line, status == cudaSuccess, isEmulatedSo);
	cudaStreamEndCapture(session.stream, &graph);
	if (graph)
		CHECK(cudaGraphDestroy(graph));
	cudaGetLastError();
}

cudaError_t newPool(cudaMemPool_t *pool)
{
	cudaMemPoolProps properties = {};
	properties.allocType = cudaMemAllocationTypePinned;
	properties.location = {cudaMemLocationTypeDevice, 0};
	return cudaMemPoolCreate(pool, &properties);
}

cudaError_t makePool(cudaStream_t)
{
	cudaMemPool_t pool = nullptr;
	const cudaError_t status = newPool(&pool);
	if (pool)
		cudaMemPoolDestroy(pool);
	return status;
}

// A pool that keeps `bytes` and uses none of them.
cudaMemPool_t idlePool(const Session &session, size_t bytes)
{
	cudaMemPool_t pool = nullptr;
	CHECK(newPool(&pool));
	uint64_t all = UINT64_MAX;
	CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
	void *memory = nullptr;
	CHECK(cudaMallocFromPoolAsync(&memory, bytes, pool, session.stream));
	CHECK(cudaFreeAsync(memory, session.stream));
	CHECK(cudaStreamSynchronize(session.stream));
	return pool;
}

// The application asks for three quarters of the memory, of which a pool keeps half.
void idlePoolMakesRoom(Line &line)
{
	Session session;
	size_t free = 0, total = 0;
	CHECK(cudaMemGetInfo(&free, &total));
	const cudaMemPool_t pool = idlePool(session, free / 2);
	void *memory = nullptr;
	const cudaError_t status = cudaMalloc(&memory, free / 4 * 3);
	line.put("status", status);
	answer(line, status == cudaSuccess, false);
	cudaGetLastError();
	CHECK(cudaFree(memory));
	CHECK(cudaMemPoolDestroy(pool));
}

// While something runs that only ends when the pool has been trimmed, or after two seconds.
void trimmingWaits(Line &line)
{
	static std::atomic<bool> isTrimmed{false}, hasWaited{false};
	Session session, other;
	const cudaMemPool_t pool = idlePool(session, 64 << 20);
	CHECK(cudaLaunchHostFunc(
	    other.stream,
	    [](void *) {
		    for (int i = 0; i < 200 && !isTrimmed; i++)
			    std::this_thread::sleep_for(std::chrono::milliseconds(10));
		    hasWaited = !isTrimmed;
	    },
	    nullptr));
	CHECK(cudaMemPoolTrimTo(pool, 0));
	isTrimmed = true;
	CHECK(cudaStreamSynchronize(other.stream));
	answer(line, hasWaited, false);
	CHECK(cudaMemPoolDestroy(pool));
}

// ---- the nodes before a captured node, read and set as autoamp does

using Nodes = std::vector<cudaGraphNode_t>;

template <typename Function>
Function driver(const char *name)
{
	return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}

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

struct Told {
	int status;
	Nodes nodes;
};
Told dependenciesOf(cudaGraphNode_t node)
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
Added addEdge(bool isTwice)
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
	return added;
}

// A captured product: reads the node on which the next one depends, and all nodes before it.
void capturedProduct(Line &line)
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
		const Told told = dependenciesOf(open[i]);
		status = status ? status : told.status;
		open.insert(open.end(), told.nodes.begin(), told.nodes.end());
	}
	line.put("nodes", static_cast<long long>(open.size())).put("status", status);
	answer(line, last.size() == 1 && status == 0 && open.size() > 1, true);
	CHECK(cudaStreamEndCapture(session.stream, &graph));
	CHECK(cudaGraphDestroy(graph));
}

// autoamp stores its state under the context's id. If an id were reused, autoamp would find pointers into freed memory.
void resetContext(Line &line)
{
	const auto current = driver<int (*)(void **)>("cuCtxGetCurrent");
	const auto id = driver<int (*)(void *, unsigned long long *)>("cuCtxGetId");
	unsigned long long ids[2] = {};
	for (unsigned long long &one : ids) {
		CHECK(cudaDeviceReset());
		CHECK(cudaFree(nullptr));
		void *context = nullptr;
		if (current(&context) || id(context, &one))
			fail("cuCtxGetId", "refused");
	}
	answer(line, ids[0] != ids[1], true, true);
}

// alpha * sum = (1 + 2^-12)^2, which fp32 rounds to 1 + 2^-11; c takes that away. One operation leaves 2^-24.
void scalars(Line &line)
{
	Session session;
	Array a(256), b(256), c(256);
	for (size_t i = 0; i < 256; i++) {
		a[i] = i < 16 ? 1 + 0x1p-12f : 0; // k = 1
		b[i] = 1;
		c[i] = -(1 + 0x1p-11f);
	}
	a.upload(), b.upload(), c.upload();
	const float alpha = 1 + 0x1p-12f, beta = 1;
	CHECK(cublasSgemm(session.handle, N, N, 16, 16, 1, &alpha, a.data(), 16, b.data(), 1, &beta, c.data(), 16));
	CHECK(cudaStreamSynchronize(session.stream));
	c.download();
	line.put("left", double(c[0]));
	answer(line, c[0] == 0, true);
}

uint64_t bitsOn(Session &session, int shift)
{
	Problem problem(with(gaussian, [&](Spec &spec) { spec.shiftA = spec.shiftB = spec.shiftC = unsigned(shift); }));
	problem.upload();
	CHECK(static_cast<cublasStatus_t>(problem.call(session.handle)));
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	uint64_t hash = 0;
	problem.c.each([&](float &x) { hash = client::hash(&x, sizeof x, hash); });
	return hash;
}

const std::vector<Case> cases = {
    {"tf32.rounds_to_nearest",
     [](Line &line) { // truncated operands leave 6.5e-4 and more
	     const double eta =
	         product(line, Problem(with(gaussian, [](Spec &s) { s.mathMode = CUBLAS_TF32_TENSOR_OP_MATH; }))).eta;
	     answer(line, eta > 2.5e-4 && eta < 3.5e-4, true);
     }},
    {"gemm_ex.follows_the_math_mode",
     [](Line &line) {
	     answer(line,
	            product(line, Problem(with(gaussian,
	                                       [](Spec &s) {
		                                       s.door = Interception::gemmEx;
		                                       s.mathMode = CUBLAS_TF32_TENSOR_OP_MATH;
	                                       })))
	                    .eta > 1e-5,
	            true);
     }},
    {"half.subnormals_count",
     [](Line &line) { answer(line, ofHalves(leastHalf, oneHalf, 64) == 0x1p-18f, true, true); }},
    {"half.products_of_subnormals",
     [](Line &line) { answer(line, ofHalves(leastHalf, leastHalf, 64) == 0x1p-42f, true); }},
    {"half.sums_beyond_its_range",
     [](Line &line) {
	     answer(line, std::fabs(ofHalves(mostHalf, mostHalf, 64) / (64 * 65504.f * 65504.f) - 1) < 1e-5f, true, true);
     }},
    {"scalars.rounded_one_by_one", scalars},
    {"nan.in_c_is_overwritten_at_beta_0",
     [](Line &line) {
	     answer(line, !product(line, Problem(with(gaussian, [](Spec &s) { s.isCNan = true; }))).nonfinite, true, true);
     }},
    {"nan.in_a_is_read_at_host_alpha_0",
     [](Line &line) {
	     answer(line, product(line, Problem(with(gaussian, [](Spec &s) { s.isANan = true, s.alpha = 0; }))).nonfinite,
	            false);
     }},
    {"nan.in_a_is_read_at_device_alpha_0",
     [](Line &line) {
	     answer(line,
	            product(line, Problem(with(gaussian,
	                                       [](Spec &s) {
		                                       s.isANan = s.hasDeviceScalars = true;
		                                       s.alpha = 0;
	                                       })))
	                .nonfinite,
	            true);
     }},
    {"nan.passes_relu",
     [](Line &line) {
	     answer(line,
	            product(line, Problem(with(gaussian,
	                                       [](Spec &s) {
		                                       s.door = Interception::ltMatmul;
		                                       s.epilogue = CUBLASLT_EPILOGUE_RELU;
		                                       s.isANan = true;
	                                       })))
	                .nonfinite,
	            true);
     }},
    {"bits.same_in_other_buffers_and_streams",
     [](Line &line) {
	     Session first, second;
	     answer(line, bitsOn(first, 0) == bitsOn(second, 0), true);
     }},
    {"bits.same_when_misaligned",
     [](Line &line) {
	     Session session;
	     answer(line, bitsOn(session, 0) == bitsOn(session, 1), true);
     }},
    {"capture.default_workspace_adds_no_memory_nodes", poolNodes},
    {"capture.global_allows_synchronizing_another_stream",
     [](Line &line) { globalCapture(line, true, cudaStreamSynchronize); }},
    {"capture.global_allows_making_a_pool", [](Line &line) { globalCapture(line, false, makePool); }},
    {"capture.a_product_ends_in_one_node_and_tells_its_edges", capturedProduct},
    {"capture.an_edge_that_is_implied_may_be_added",
     [](Line &line) {
	     const Added added = addEdge(false);
	     line.put("status", added.status);
	     answer(line, added.status == 0 && added.isDone, true, true);
     }},
    {"capture.an_edge_that_is_implied_is_kept",
     [](Line &line) {
	     const Added added = addEdge(false);
	     answer(line, std::count(added.before.begin(), added.before.end(), added.first[0]) == 1, true);
     }},
    {"capture.an_edge_may_be_added_twice",
     [](Line &line) {
	     const Added added = addEdge(true);
	     line.put("status", added.status).put("edges", static_cast<long long>(added.before.size()));
	     answer(line, added.status == 0 && added.isDone, true);
     }},
    {"memory.an_idle_pool_makes_room_for_malloc", idlePoolMakesRoom},
    {"memory.trimming_a_pool_waits_for_the_device", trimmingWaits},
    {"context.has_another_id_after_a_reset", resetContext},
    {"lt.refuses_a_pointer_less_aligned_than_promised", misaligned}, // last: it may break the context
};

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, cases);
}
