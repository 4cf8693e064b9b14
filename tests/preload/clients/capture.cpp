// Products in CUDA graphs: captured, replayed when much has changed, and thrown away. One case a line. The
// `first` ones need a process of their own each: they are about its first product.
#include "harness.h"

#include <atomic>
#include <memory>
#include <thread>

using namespace client;

namespace {

constexpr double worst = 4e-3;

class Graph
{
public:
	// What `enqueue` puts on the stream. The graph itself is destroyed at once: its executable lives on its own.
	Graph(cudaStream_t stream, const std::function<void()> &enqueue,
	      cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal)
	{
		cudaGraph_t graph = nullptr;
		CHECK(cudaStreamBeginCapture(stream, mode));
		enqueue();
		CHECK(cudaStreamEndCapture(stream, &graph));
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
	Problem captured({.m = 41}), eager({.m = 42}), pedantic({.m = 43, .mathMode = CUBLAS_PEDANTIC_MATH});
	// The vendor's own first call may allocate and load, which global mode forbids.
	eagerBits(mine, pedantic);
	eagerBits(theirs, pedantic);
	prepare(captured);
	prepare(eager);
	CHECK(cublasSetMathMode(theirs.handle, CUBLAS_DEFAULT_MATH));
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

// The first product after a reset is a captured one: what was ready went with the old context.
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
		line.require(problem.compare().eta < worst, "wrong result");
	}
	line.require(bits[0] == bits[1], "bits differ between replays");
	problem.restore();
	line.require(eagerBits(session, problem) == bits[0], "replayed bits differ from eager ones");
	const Answer answer = problem.compare();
	problem.describe(line);
	line.put("captured", 1).bits("bits", bits[0]).put("eta", answer.eta);
}

// A long k is split, and the parts lie in memory that the graph has to keep.
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

// Inputs that grow and shrink between the replays of one graph; device scalars that change as well.
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

// A graph's memory is its own: products that need far more come and go, then it is replayed.
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

// Replayed when the handle and the stream that it was captured on are gone.
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

// A capture that the application itself has broken: the product in it, and what follows, is as the vendor has it.
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

size_t freeMemory()
{
	size_t free = 0, total = 0;
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemGetInfo(&free, &total));
	return free;
}

// Graphs that come and go leave nothing behind, whether they were replayed or not, and no eager product in between.
void flat(Line &line)
{
	Session session;
	warm(session);
	Problem problem({.m = 256, .n = 256, .k = 256});
	prepare(problem);
	constexpr int settling = 100, cycles = 1000;
	// A few graphs' worth: they may go some time after they were destroyed. Every graph's would be hundreds of MB.
	constexpr size_t slack = 64 << 20;
	size_t before = 0;
	for (int cycle = 0; cycle < cycles; cycle++) {
		if (cycle == settling)
			before = freeMemory();
		const auto graph = record(session, problem, line);
		if (cycle % 50 == 0)
			graph->replay(session.stream);
	}
	const size_t after = freeMemory();
	problem.describe(line);
	line.put("captured", cycles).put("lost", static_cast<long long>(before) - static_cast<long long>(after));
	line.require(before <= after + slack, "memory is lost");
	line.bits("bits", resultBits(problem));
}

// A rare event at every replay, far more often than anybody reads them.
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

// Data that gets so that float16 loses rows of it, between the replays of one graph.
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
	constexpr int replays = 300; // one in 127 is judged, the first included
	for (int replay = 1; replay < replays; replay++)
		graph->launch(session.stream);
	CHECK(cudaStreamSynchronize(session.stream));
	problem.describe(line);
	line.put("captured", 1).put("losses", 2).bits("bits", resultBits(problem));
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
	    {"replay.gemm_ex", {.door = Door::gemmEx, .m = 55, .transa = CUBLAS_OP_T, .padA = 1}, global},
	    {"replay.strided", {.door = Door::sgemmStridedBatched, .m = 56, .batch = 3}, global},
	    {"replay.strided_ex", {.door = Door::gemmStridedBatchedEx, .m = 57, .batch = 3, .sharesB = true}, global},
	    {"replay.lt", {.door = Door::ltMatmul, .m = 58, .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS}, global},
	    {"replay.lt_own", {.door = Door::ltMatmul, .m = 59, .ltHandle = LtHandle::own, .hasOwnD = true}, global},
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
	    {"later.loss", loss},
	};
	cases.insert(cases.end(), std::begin(more), std::end(more));
	return cases;
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, allCases());
}
