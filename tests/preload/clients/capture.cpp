// Products in CUDA graphs: captured, replayed after many changes, and destroyed. One case per line. Each of the `first`
// ones needs its own process: they test its first product.
#include "harness.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

using namespace client;

namespace {

constexpr double worst = 4e-3;

class Graph
{
public:
	// `enqueue` adds work to the stream; `edit` changes the graph. The graph itself is destroyed immediately: its
	// executable lives on its own.
	Graph(cudaStream_t stream, const std::function<void()> &enqueue,
	      cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal, const std::function<void(cudaGraph_t &)> &edit = {})
	{
		cudaGraph_t graph = nullptr;
		CHECK(cudaStreamBeginCapture(stream, mode));
		enqueue();
		CHECK(cudaStreamEndCapture(stream, &graph));
		if (edit)
			edit(graph);
		CHECK(cudaGraphInstantiate(&executable_, graph, 0));
		CHECK(cudaGraphDestroy(graph));
	}
	~Graph() { CHECK(cudaGraphExecDestroy(executable_)); }
	Graph(const Graph &) = delete;
	void launch(cudaStream_t stream) const { CHECK(cudaGraphLaunch(executable_, stream)); }
	void replay(cudaStream_t stream) const
	{
		launch(stream);
		CHECK(cudaStreamSynchronize(stream));
	}

private:
	cudaGraphExec_t executable_ = nullptr;
};

// A product that runs eagerly, of a shape that no case captures.
void warm(Session &session)
{
	Problem problem({.m = 35, .n = 32, .k = 32});
	problem.upload();
	CHECK(cudaDeviceSynchronize());
	if (problem.call(session.handle))
		fail("warm", "a product failed");
	CHECK(cudaStreamSynchronize(session.stream));
}

void prepare(Problem &problem)
{
	problem.upload();
	CHECK(cudaDeviceSynchronize());
}

uint64_t resultBits(Problem &problem)
{
	problem.download();
	return problem.result().array.bits();
}

uint64_t eagerBits(Session &session, Problem &problem)
{
	prepare(problem);
	if (problem.call(session.handle, session.light))
		fail("eager", "a product failed");
	CHECK(cudaStreamSynchronize(session.stream));
	return resultBits(problem);
}

void scale(Matrix &matrix, float factor)
{
	matrix.each([factor](float &x) { x *= factor; });
}

std::unique_ptr<Graph> record(Session &session, Problem &problem, Line &line,
                              cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal)
{
	return std::make_unique<Graph>(
	    session.stream,
	    [&] { line.require(problem.call(session.handle, session.light) == 0, "a captured call failed"); }, mode);
}

// The first product of the process is a captured one.
void first(const Spec &spec, Line &line)
{
	Session session;
	Problem problem(spec);
	prepare(problem);
	const auto graph = record(session, problem, line);
	graph->replay(session.stream);
	line.bits("bits", resultBits(problem));
	const Answer answer = problem.compare();
	line.put("eta", answer.eta);
	line.require(answer.eta < worst, "wrong result");
	problem.describe(line);
}

// The first product of the process runs while another thread captures in global mode: that capture stays valid.
void firstBeside(Line &line)
{
	Session mine, theirs;
	const Spec specs[] = {{.m = 41}, {.m = 42}};
	Problem captured(specs[0]), eager(specs[1]);
	// The vendor's own first calls may allocate and load, which global mode forbids. These have another entry point, so
	// that a test can keep them.
	for (Session *session : {&mine, &theirs})
		for (Spec spec : specs) {
			spec.door = Interception::sgemmEx;
			Problem same(spec);
			eagerBits(*session, same);
		}
	prepare(captured);
	prepare(eager);
	std::atomic<int> turn{0};
	int status = -1;
	std::thread other([&] {
		while (turn != 1)
			std::this_thread::yield();
		status = eager.call(theirs.handle);
		turn = 2;
	});
	const Graph graph(mine.stream, [&] {
		turn = 1;
		while (turn != 2)
			std::this_thread::yield();
		line.require(captured.call(mine.handle) == 0, "the captured call failed");
	});
	other.join();
	CHECK(cudaDeviceSynchronize());
	graph.replay(mine.stream);
	line.bits("bits", resultBits(captured)).bits("eager_bits", resultBits(eager));
	line.require(status == 0, "the eager call failed");
	line.require(captured.compare().eta < worst, "wrong result of the captured call");
	line.require(eager.compare().eta < worst, "wrong result of the eager call");
	captured.describe(line);
}

// The first product after a reset is a captured one: state of the old context is gone.
void firstAfterReset(Line &line)
{
	{
		Session session;
		warm(session);
	}
	CHECK(cudaDeviceReset());
	Session session;
	Problem problem({.m = 45});
	prepare(problem);
	const auto graph = record(session, problem, line);
	graph->replay(session.stream);
	problem.describe(line);
	line.bits("bits", resultBits(problem));
	line.require(problem.compare().eta < worst, "wrong result");
}

// Captured, replayed twice, compared with the eager product's bits.
void replayed(const Spec &spec, cudaStreamCaptureMode mode, Line &line)
{
	Session session;
	warm(session);
	Problem problem(spec);
	prepare(problem);
	const auto graph = record(session, problem, line, mode);
	uint64_t bits[2];
	for (uint64_t &now : bits) {
		problem.restore(); // or the second replay would add to the first one's result
		prepare(problem);
		graph->replay(session.stream);
		now = resultBits(problem);
		line.require(problem.isPaddingWhole(), "memory outside the matrices changed");
		line.require(problem.compare().eta < worst && problem.compare().beside < worst, "wrong result");
	}
	line.require(bits[0] == bits[1], "bits differ between replays");
	problem.restore();
	line.require(eagerBits(session, problem) == bits[0], "replayed bits differ from eager ones");
	const Answer answer = problem.compare();
	problem.describe(line);
	line.put("captured", 1).bits("bits", bits[0]).put("eta", answer.eta);
}

// A long k is split, and the parts are in memory that the graph must keep.
void workspace(Line &line)
{
	const Spec spec = {.m = 72, .n = 16, .k = 4096};
	{
		Session session;
		Problem problem(spec);
		eagerBits(session, problem);
	}
	replayed(spec, cudaStreamCaptureModeGlobal, line);
}

// Inputs that grow and shrink between the replays of one graph; device scalars also change.
void growth(bool isDevice, Line &line)
{
	Session session;
	warm(session);
	Problem problem({.m = isDevice ? 60 : 61, .hasDeviceScalars = isDevice});
	prepare(problem);
	const auto graph = record(session, problem, line);
	double largest = 0, least = INFINITY;
	uint64_t bits = 0;
	for (const float factor : {1e6f, 1e6f, 1e-18f, 1e12f}) {
		scale(problem.a, factor);
		scale(problem.b, 1 / factor / 1e3f);
		if (isDevice)
			problem.setScalars(problem.spec.alpha * -1e3f, 0);
		prepare(problem);
		graph->replay(session.stream);
		const uint64_t now = resultBits(problem);
		const Answer answer = problem.compare();
		largest = std::max(largest, answer.eta);
		least = std::min(least, answer.eta);
		line.require(answer.spoiled == 0, "Inf or NaN where there is none");
		line.require(eagerBits(session, problem) == now, "replayed bits differ from eager ones");
		bits = bits * 31 + now;
	}
	problem.describe(line);
	line.put("captured", 1).put("eta", largest).put("least_eta", least).bits("bits", bits);
}

// A graph has its own memory: products that need far more run and release theirs, then it is replayed.
void poolsGrew(Line &line)
{
	Session session;
	warm(session);
	Problem problem({.m = 62});
	prepare(problem);
	const auto graph = record(session, problem, line);
	graph->replay(session.stream);
	const uint64_t bits = resultBits(problem);
	for (const int size : {100, 300, 500}) {
		Problem large({.m = size, .n = size, .k = size});
		prepare(large);
		graph->launch(session.stream);
		line.require(large.call(session.handle) == 0, "an eager call failed");
		CHECK(cudaStreamSynchronize(session.stream));
		line.require(resultBits(problem) == bits, "other bits after the pools grew");
	}
	graph->replay(session.stream);
	line.require(resultBits(problem) == bits, "other bits when replayed again");
	problem.describe(line);
	line.put("captured", 1).bits("bits", bits);
}

// Replayed after the handle and the stream that captured it were destroyed.
void ownersGone(Line &line)
{
	auto session = std::make_unique<Session>();
	warm(*session);
	Problem problem({.m = 63});
	prepare(problem);
	const auto graph = record(*session, problem, line);
	graph->replay(session->stream);
	const uint64_t bits = resultBits(problem);
	session.reset();
	Session other;
	Problem filler({.m = 64});
	eagerBits(other, filler);
	prepare(problem);
	graph->replay(other.stream);
	line.require(resultBits(problem) == bits, "other bits on another stream");
	problem.describe(line);
	line.put("captured", 1).bits("bits", bits);
}

// Two graphs of one signature and eager products of the same signature, all at once.
void concurrent(Line &line)
{
	Session sessions[3];
	warm(sessions[0]);
	std::vector<std::unique_ptr<Problem>> problems;
	std::vector<uint64_t> wanted;
	for (uint64_t i = 0; i < 3; i++) {
		problems.push_back(std::make_unique<Problem>(Spec{.m = 65}, i));
		scale(problems[i]->a, i == 1 ? 1e8f : 1);
		wanted.push_back(eagerBits(sessions[i], *problems[i]));
	}
	const auto one = record(sessions[0], *problems[0], line), two = record(sessions[1], *problems[1], line);
	constexpr int turns = 20;
	std::atomic<int> wrong{0};
	std::thread eager([&] {
		for (int turn = 0; turn < turns; turn++)
			wrong += problems[2]->call(sessions[2].handle) != 0;
	});
	for (int turn = 0; turn < turns; turn++) {
		one->launch(sessions[0].stream);
		two->launch(sessions[1].stream);
	}
	eager.join();
	CHECK(cudaDeviceSynchronize());
	for (size_t i = 0; i < 3; i++)
		line.require(resultBits(*problems[i]) == wanted[i], "concurrent products disturbed each other");
	line.require(wrong == 0, "an eager call failed");
	problems[0]->describe(line);
	line.put("captured", 2).bits("bits", wanted[0]);
}

// A chain of products on two streams that one capture joins.
void forked(Line &line)
{
	Session main, side;
	warm(main);
	Problem left({.m = 66}), right({.m = 67}, 2);
	prepare(left);
	prepare(right);
	cudaEvent_t fork = nullptr, join = nullptr;
	CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	const Graph graph(main.stream, [&] {
		CHECK(cudaEventRecord(fork, main.stream));
		CHECK(cudaStreamWaitEvent(side.stream, fork, 0));
		line.require(right.call(side.handle) == 0 && left.call(main.handle) == 0, "a captured call failed");
		CHECK(cudaEventRecord(join, side.stream));
		CHECK(cudaStreamWaitEvent(main.stream, join, 0));
	});
	graph.replay(main.stream);
	const uint64_t bits[] = {resultBits(left), resultBits(right)};
	CHECK(cudaEventDestroy(fork));
	CHECK(cudaEventDestroy(join));
	line.require(bits[0] == eagerBits(main, left) && bits[1] == eagerBits(side, right),
	             "replayed bits differ from eager ones");
	left.describe(line);
	line.put("captured", 1).bits("bits", bits[0] ^ bits[1]);
}

// Many products in one graph, each on the result of the one before.
void chain(Line &line)
{
	Session session;
	warm(session);
	constexpr int n = 68, length = 8;
	Problem problem({.m = n, .n = n, .k = n}), other({.m = n, .n = n, .k = n});
	scale(problem.a, 0.1f);
	prepare(problem);
	prepare(other);
	const float one = 1, zero = 0;
	const auto enqueue = [&] {
		float *from = problem.b.array.data(), *to = problem.c.array.data();
		for (int i = 0; i < length; i++) {
			line.require(cublasSgemm(session.handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, problem.a.array.data(), n,
			                         from, n, &zero, to, n) == 0,
			             "a call failed");
			from = to;
			to = to == problem.c.array.data() ? other.c.array.data() : problem.c.array.data();
		}
	};
	enqueue();
	CHECK(cudaStreamSynchronize(session.stream));
	const uint64_t eager = resultBits(other);
	prepare(problem);
	const Graph graph(session.stream, enqueue);
	for (int replay = 0; replay < 3; replay++) {
		graph.replay(session.stream);
		line.require(resultBits(other) == eager, "replayed bits differ from eager ones");
	}
	problem.describe(line);
	line.put("captured", length).bits("bits", eager);
}

// ---- graphs of many products

// Orders later work of `then` after the present work of `first`.
void order(const Session &first, const Session &then)
{
	cudaEvent_t event = nullptr;
	CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	CHECK(cudaEventRecord(event, first.stream));
	CHECK(cudaStreamWaitEvent(then.stream, event, 0));
	CHECK(cudaEventDestroy(event));
}

// The only node on which the next node of a capturing stream depends.
cudaGraphNode_t lastNode(const Session &session)
{
	cudaStreamCaptureStatus status = {};
	const cudaGraphNode_t *nodes = nullptr;
	const cudaGraphEdgeData *edges = nullptr;
	size_t count = 0;
	CHECK(RUNTIME(cudaStreamGetCaptureInfo, "cudaStreamGetCaptureInfo_v3")(session.stream, &status, nullptr, nullptr,
	                                                                       &nodes, &edges, &count));
	if (count != 1)
		fail("cudaStreamGetCaptureInfo", "not one node");
	return nodes[0];
}

bool comesAfter(cudaGraphNode_t node, cudaGraphNode_t other)
{
	std::vector<cudaGraphNode_t> open{node};
	for (size_t i = 0; i < open.size(); i++) {
		cudaGraphNode_t before[8];
		cudaGraphEdgeData edges[8];
		size_t count = 8;
		CHECK(RUNTIME(cudaGraphNodeGetDependencies, "cudaGraphNodeGetDependencies_v2")(open[i], before, edges, &count));
		for (size_t j = 0; j < count; j++)
			if (before[j] == other)
				return true;
			else if (std::find(open.begin(), open.end(), before[j]) == open.end())
				open.push_back(before[j]);
	}
	return false;
}

// Products of one shape on four pairs of operands, each with its own result.
struct Products {
	Products(int m, size_t count)
	{
		for (uint64_t seed = 1; seed <= 4; seed++)
			problems.push_back(std::make_unique<Problem>(Spec{.m = m, .n = 32, .k = 1024}, seed));
		for (size_t i = 0; i < count; i++)
			results.emplace_back(problems[0]->c.array.size());
	}
	int call(const Session &session, size_t i) const
	{
		const Problem &problem = *problems[i % problems.size()];
		const Spec &spec = problem.spec;
		return cublasSgemm(session.handle, CUBLAS_OP_N, CUBLAS_OP_N, spec.m, spec.n, spec.k, &spec.alpha,
		                   problem.a.array.data(), spec.m, problem.b.array.data(), spec.k, &spec.beta,
		                   results[i].data(), spec.m);
	}
	// A node of the application's own.
	void copy(const Session &session)
	{
		CHECK(cudaMemcpyAsync(scratch.data(), problems[0]->a.array.data(), sizeof(float), cudaMemcpyDeviceToDevice,
		                      session.stream));
	}

	std::vector<std::unique_ptr<Problem>> problems;
	std::vector<Array> results;
	Array scratch{1};
};

// One graph, captured on two streams.
struct Shared {
	Products &products;
	Session main, side;
	Line &line;
	cudaGraphNode_t cut[2] = {}; // an edge
	bool isWrong = false;

	void call(const Session &session, size_t i)
	{
		if (products.call(session, i))
			isWrong = true;
	}
};

void many(Shared &shared)
{
	for (size_t i = 0; i < shared.products.results.size(); i++) {
		shared.call(shared.main, i);
		if (i % 3 == 0)
			shared.products.copy(shared.main);
	}
}

// Two branches that may run fully concurrently.
void branches(Shared &shared)
{
	order(shared.main, shared.side);
	for (size_t i = 0; i < shared.products.results.size(); i++)
		shared.call(i % 2 ? shared.side : shared.main, i);
	const cudaGraphNode_t left = lastNode(shared.main), right = lastNode(shared.side);
	shared.line.require(!comesAfter(left, right) && !comesAfter(right, left), "two branches wait for each other");
	order(shared.side, shared.main);
}

void byTwoThreads(Shared &shared)
{
	order(shared.main, shared.side);
	const auto half = [&](const Session &session, size_t first) {
		for (size_t i = first; i < shared.products.results.size(); i += 2)
			shared.call(session, i);
	};
	std::thread other([&] { half(shared.side, 1); });
	half(shared.main, 0);
	other.join();
	order(shared.side, shared.main);
}

void byEvents(Shared &shared)
{
	for (size_t i = 0; i < shared.products.results.size(); i += 2) {
		shared.call(shared.main, i);
		order(shared.main, shared.side);
		shared.call(shared.side, i + 1);
		order(shared.side, shared.main);
	}
}

// A copy between two products that does not depend on them: the edge to it is removed.
void aroundCopy(Shared &shared)
{
	shared.call(shared.main, 0);
	shared.cut[0] = lastNode(shared.main);
	shared.products.copy(shared.main);
	shared.cut[1] = lastNode(shared.main);
	shared.call(shared.main, 1);
}

void cutEdge(Shared &shared, cudaGraph_t &graph)
{
	CHECK(RUNTIME(cudaGraphRemoveDependencies, "cudaGraphRemoveDependencies_v2")(graph, &shared.cut[0], &shared.cut[1],
	                                                                             nullptr, 1));
}

// A copy of the graph. It outlives the graph, while eager products take all free memory.
void replaceByClone(Shared &shared, cudaGraph_t &graph)
{
	const cudaGraph_t original = graph;
	CHECK(cudaGraphClone(&graph, original));
	CHECK(cudaGraphDestroy(original));
	for (int i = 0; i < 2; i++) {
		awaitDestructors();
		warm(shared.main);
	}
}

struct SharedRow {
	const char *name;
	int m;
	size_t count;
	void (*enqueue)(Shared &);
	void (*edit)(Shared &, cudaGraph_t &) = nullptr;
};

// Captures, and replays next to eager products of the same shape: every result equals the eager one.
void shares(const SharedRow &row, Line &line)
{
	Products products(row.m, row.count);
	Shared shared{.products = products, .main = {}, .side = {}, .line = line};
	Session third;
	const Workspace main(shared.main), side(shared.side);
	warm(shared.main);
	std::vector<uint64_t> wanted;
	double eta = 0;
	for (const auto &problem : products.problems) {
		wanted.push_back(eagerBits(third, *problem));
		eta = std::max(eta, problem->compare().eta);
	}
	const Graph graph(
	    shared.main.stream, [&] { row.enqueue(shared); }, cudaStreamCaptureModeRelaxed,
	    [&](cudaGraph_t &captured) {
		    if (row.edit)
			    row.edit(shared, captured);
	    });
	for (int replay = 0; replay < 2; replay++) { // the emulated device has two orders
		for (const Array &result : products.results)
			result.upload();
		CHECK(cudaDeviceSynchronize());
		graph.launch(shared.main.stream);
		for (const auto &problem : products.problems) {
			shared.isWrong |= problem->call(third.handle) != 0;
			CHECK(cudaStreamSynchronize(third.stream)); // or the memory that they freed would count
		}
		CHECK(cudaDeviceSynchronize());
		size_t wrong = 0;
		for (size_t i = 0; i < row.count; i++) {
			products.results[i].download();
			wrong += products.results[i].bits() != wanted[i % wanted.size()];
		}
		line.require(wrong == 0, "replayed bits differ from eager ones");
		for (size_t i = 0; i < wanted.size(); i++)
			line.require(resultBits(*products.problems[i]) == wanted[i], "eager products are disturbed");
	}
	line.require(!shared.isWrong, "a call failed");
	products.problems[0]->describe(line);
	line.put("captured", static_cast<long long>(row.count)).put("eta", eta).bits("bits", wanted[0]);
}

// A capture that the application itself has broken: the product in it, and later calls, return the vendor's results.
void broken(Line &line)
{
	Session session;
	warm(session);
	Problem problem({.m = 69});
	prepare(problem);
	cudaGraph_t graph = nullptr;
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeGlobal));
	line.require(cudaStreamSynchronize(session.stream) != cudaSuccess, "a capturing stream could be waited for");
	line.put("status", problem.call(session.handle));
	line.require(cudaStreamEndCapture(session.stream, &graph) != cudaSuccess, "the capture is still valid");
	cudaGetLastError();
	line.bits("bits", eagerBits(session, problem));
	line.require(problem.compare().eta < worst, "wrong result after a broken capture");
}

size_t freeMemory(bool isWaiting = true)
{
	size_t free = 0, total = 0;
	if (isWaiting)
		CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemGetInfo(&free, &total));
	return free;
}

// Memory that an eager product leaves idle and that a captured one keeps, in MB.
void held(Line &line)
{
	Session session;
	warm(session);
	const size_t before = freeMemory();
	Problem problem({.m = 78, .n = 64, .k = 1 << 17});
	const size_t own = before - freeMemory();
	eagerBits(session, problem);
	const auto graph = record(session, problem, line);
	problem.describe(line);
	line.put("captured", 1).put("held", static_cast<long long>((before - own - freeMemory(false)) >> 20));
}

// Graphs that are created and destroyed release everything, whether replayed or not, without an eager product in
// between.
void flat(Line &line)
{
	Session session;
	warm(session);
	Problem problem({.m = 256, .n = 256, .k = 256});
	prepare(problem);
	constexpr int settling = 100, cycles = 1000, products = 3;
	// The memory of a few graphs is allowed. That of all graphs would be hundreds of MB.
	constexpr size_t slack = 64 << 20;
	size_t before = 0;
	for (int cycle = 0; cycle < cycles; cycle++) {
		if (cycle == settling)
			before = freeMemory();
		const Graph graph(session.stream, [&] {
			for (int i = 0; i < products; i++)
				line.require(problem.call(session.handle) == 0, "a captured call failed");
		});
		if (cycle % 50 == 0)
			graph.replay(session.stream);
		awaitDestructors(); // those for the graphs before this one
	}
	const size_t after = freeMemory();
	problem.describe(line);
	line.put("captured", cycles * products).put("lost", static_cast<long long>(before) - static_cast<long long>(after));
	line.require(before <= after + slack, "memory is lost");
	line.bits("bits", resultBits(problem));
}

// A rare event at every replay, far more often than the events are read.
void events(Line &line)
{
	Session session;
	warm(session);
	Problem problem({.m = 70});
	problem.b.array[5] = NAN;
	prepare(problem);
	const auto graph = record(session, problem, line);
	constexpr int replays = 5000;
	for (int replay = 0; replay < replays; replay++)
		graph->launch(session.stream);
	CHECK(cudaStreamSynchronize(session.stream));
	problem.describe(line);
	line.put("captured", 1).put("replays", replays).bits("bits", resultBits(problem));
}

// Data changes between the replays of one graph so that float16 loses rows of it.
void loss(Line &line)
{
	Session session;
	warm(session);
	Problem problem({.m = 73, .n = 32, .k = 32});
	prepare(problem);
	const auto graph = record(session, problem, line);
	graph->replay(session.stream);
	for (int64_t j = 0; j < problem.a.columns; j++)
		problem.a.array[problem.a.index(0, 5, j)] *= 1e-10f;
	prepare(problem);
	constexpr int replays = 300; // checked: the first two and one in 127
	for (int replay = 1; replay < replays; replay++)
		graph->launch(session.stream);
	CHECK(cudaStreamSynchronize(session.stream));
	problem.describe(line);
	line.put("captured", 1).put("losses", 3).bits("bits", resultBits(problem));
}

std::vector<Case> allCases()
{
	constexpr auto global = cudaStreamCaptureModeGlobal;
	struct Row {
		const char *name;
		Spec spec;
		cudaStreamCaptureMode mode;
	};
	const Row rows[] = {
	    {"replay.global", {.m = 50}, global},
	    {"replay.thread_local", {.m = 51}, cudaStreamCaptureModeThreadLocal},
	    {"replay.relaxed", {.m = 52}, cudaStreamCaptureModeRelaxed},
	    {"replay.beta", {.m = 53, .alpha = -2, .beta = 0.5f}, global},
	    {"replay.device_scalars", {.m = 54, .alpha = -2, .beta = 0.5f, .hasDeviceScalars = true}, global},
	    {"replay.gemm_ex", {.door = Interception::gemmEx, .m = 55, .transa = CUBLAS_OP_T, .padA = 1}, global},
	    {"replay.strided", {.door = Interception::sgemmStridedBatched, .m = 56, .batch = 3}, global},
	    {"replay.batched", {.door = Interception::sgemmBatched, .m = 60, .batch = 3, .beta = 0.5f}, global},
	    {"replay.grouped",
	     {.door = Interception::sgemmGrouped, .m = 79, .batch = 3, .groups = 2, .beta = 0.5f},
	     global},
	    {"replay.strided_ex",
	     {.door = Interception::gemmStridedBatchedEx, .m = 57, .batch = 3, .sharesB = true},
	     global},
	    {"replay.lt", {.door = Interception::ltMatmul, .m = 58, .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS}, global},
	    {"replay.lt_gradient",
	     {.door = Interception::ltMatmul,
	      .m = 91,
	      .beta = 0.5f,
	      .epilogue = CUBLASLT_EPILOGUE_DRELU_BGRAD,
	      .hasOwnD = true},
	     global},
	    {"replay.lt_sum", {.door = Interception::ltMatmul, .m = 92, .epilogue = CUBLASLT_EPILOGUE_BGRADA}, global},
	    {"replay.lt_arrays",
	     {.door = Interception::ltMatmul, .m = 93, .batch = 3, .beta = 0.5f, .areArrays = true, .hasOwnD = true},
	     global},
	    {"replay.lt_rows",
	     {.door = Interception::ltMatmul, .m = 94, .transa = CUBLAS_OP_T, .isRowA = true, .isRowD = true},
	     global},
	    {"replay.lt_own",
	     {.door = Interception::ltMatmul, .m = 59, .ltHandle = LtHandle::own, .hasOwnD = true},
	     global},
	};
	std::vector<Case> cases = {
	    {"first.captured", [](Line &line) { first({.m = 40}, line); }},
	    {"first.long", [](Line &line) { first({.m = 48, .n = 16, .k = 4096}, line); }},
	    {"first.beside", firstBeside},
	    {"first.after_reset", firstAfterReset},
	};
	for (const Row &row : rows)
		cases.push_back({row.name, [row](Line &line) { replayed(row.spec, row.mode, line); }});
	const Case more[] = {
	    {"replay.workspace", workspace},
	    {"growth.host", [](Line &line) { growth(false, line); }},
	    {"growth.device", [](Line &line) { growth(true, line); }},
	    {"later.pools_grew", poolsGrew},
	    {"later.owners_gone", ownersGone},
	    {"later.concurrent", concurrent},
	    {"later.forked", forked},
	    {"later.chain", chain},
	    {"later.broken", broken},
	    {"later.flat", flat},
	    {"later.events", events},
	    {"held", held},
	    {"later.loss", loss},
	};
	cases.insert(cases.end(), std::begin(more), std::end(more));
	const SharedRow shared[] = {
	    {"shared.many", 71, 400, many},
	    {"shared.branches", 72, 20, branches},
	    {"shared.by_events", 73, 20, byEvents},
	    {"shared.by_two_threads", 74, 60, byTwoThreads},
	    {"shared.cut", 75, 2, aroundCopy, cutEdge},
	    {"shared.clone", 76, 2, byEvents, replaceByClone},
	};
	for (const SharedRow &row : shared)
		cases.push_back({row.name, [row](Line &line) { shares(row, line); }});
	return cases;
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, allCases());
}
