// Objects that are created, destroyed or exhausted around products: graphs and their executables, streams, handles, the
// device's memory. One case per line; see harness.h for the command line.
#include "harness.h"

#include <fstream>
#include <malloc.h>
#include <memory>
#include <thread>
#include <unistd.h>

using namespace client;

namespace {

constexpr double worst = 4e-3; // for the least exact type in which a product may be computed

size_t freeMemory()
{
	size_t free = 0, total = 0;
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemGetInfo(&free, &total));
	return free;
}

long long residentBytes()
{
	malloc_trim(0);
	long long pages = 0, resident = 0;
	std::ifstream("/proc/self/statm") >> pages >> resident;
	return resident * sysconf(_SC_PAGESIZE);
}

void prepare(Problem &problem)
{
	problem.restore();
	problem.upload();
	CHECK(cudaDeviceSynchronize());
}

uint64_t resultBits(Problem &problem)
{
	problem.download();
	return problem.result().array.bits();
}

uint64_t eagerBits(const Session &session, Problem &problem)
{
	problem.upload();
	CHECK(cudaDeviceSynchronize());
	if (problem.call(session.handle, session.light))
		fail("eager", "a product failed");
	CHECK(cudaStreamSynchronize(session.stream));
	return resultBits(problem);
}

// ---- graphs

// Two products of one shape, and one that needs other memory.
struct Scene {
	explicit Scene(Line &line) : line(line)
	{
		for (uint64_t seed = 1; seed <= 2; seed++)
			same.push_back(std::make_unique<Problem>(Spec{.m = 90, .beta = 0.5f}, seed));
		for (const auto &problem : same)
			bits.push_back(eagerBits(session, *problem));
	}
	void call(const Session &on, Problem &problem) const
	{
		line.require(problem.call(on.handle, on.light) == 0, "a call failed");
	}
	cudaGraph_t capture(const std::function<void()> &enqueue) const
	{
		cudaGraph_t graph = nullptr;
		CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeGlobal));
		enqueue();
		CHECK(cudaStreamEndCapture(session.stream, &graph));
		return graph;
	}
	cudaGraph_t capture(Problem &problem) const
	{
		return capture([&] { call(session, problem); });
	}
	// Launched work, or work launched by `launch`, computes the product same[which], even if other products take the
	// available memory.
	void expect(size_t which, const std::function<void()> &launch) const
	{
		Problem &problem = *same[which];
		prepare(problem);
		awaitDestructors();
		Problem filler({.m = 91, .k = 200});
		filler.upload();
		CHECK(cudaDeviceSynchronize());
		call(other, filler);
		launch();
		call(other, filler);
		CHECK(cudaDeviceSynchronize());
		line.require(resultBits(problem) == bits[which], "a replay computed something else");
	}
	void expect(size_t which, cudaGraphExec_t executable) const
	{
		expect(which, [&] { CHECK(cudaGraphLaunch(executable, session.stream)); });
	}

	Line &line;
	Session session, other;
	std::vector<std::unique_ptr<Problem>> same;
	std::vector<uint64_t> bits;
};

cudaGraphExec_t instantiate(cudaGraph_t graph)
{
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	return executable;
}

// Destroys the graph, like an application that has updated its executable.
std::string update(cudaGraphExec_t executable, cudaGraph_t graph)
{
	cudaGraphExecUpdateResultInfo info = {};
	const cudaError_t status = cudaGraphExecUpdate(executable, graph, &info);
	cudaGetLastError();
	CHECK(cudaGraphDestroy(graph));
	return std::to_string(status) + "/" + std::to_string(info.result);
}

void updated(Scene &scene)
{
	const cudaGraph_t first = scene.capture(*scene.same[0]);
	const cudaGraphExec_t executable = instantiate(first);
	CHECK(cudaGraphDestroy(first));
	scene.expect(0, executable);
	std::string told;
	for (size_t turn = 1; turn < 8; turn++) {
		told += update(executable, scene.capture(*scene.same[turn % 2])) + ",";
		scene.expect(turn % 2, executable);
	}
	told += update(executable, scene.capture([&] {
		for (const auto &problem : scene.same)
			scene.call(scene.session, *problem);
	}));
	scene.expect(1, executable); // as before
	scene.line.put("statuses", told);
	CHECK(cudaGraphExecDestroy(executable));
}

// The same sequence captured twice: different available memory must not give a different graph.
void updatedInOtherMemory(Scene &scene)
{
	Problem small({.m = 192, .n = 192, .k = 192}), middle({.m = 224, .n = 224, .k = 224}),
	    large({.m = 256, .n = 256, .k = 256});
	Array own(64);
	const auto sequence = [&] {
		scene.call(scene.session, small);
		CHECK(cudaMemsetAsync(own.data(), 0, 64, scene.session.stream));
		scene.call(scene.session, middle);
	};
	for (Problem *problem : {&small, &middle, &large})
		eagerBits(scene.session, *problem);
	const uint64_t bits[] = {resultBits(small), resultBits(middle)};
	const cudaGraph_t first = scene.capture(sequence);
	const cudaGraphExec_t executable = instantiate(first);
	CHECK(cudaGraphDestroy(scene.capture(large)));
	std::this_thread::sleep_for(std::chrono::milliseconds(20)); // its memory is free again
	scene.line.put("statuses", update(executable, scene.capture(sequence)));
	CHECK(cudaGraphDestroy(first));
	for (Problem *problem : {&small, &middle})
		problem->upload();
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaGraphLaunch(executable, scene.session.stream));
	CHECK(cudaDeviceSynchronize());
	scene.line.require(resultBits(small) == bits[0] && resultBits(middle) == bits[1],
	                   "a replay computed something else");
	CHECK(cudaGraphExecDestroy(executable));
}

// Inside another graph; everything except the executable is destroyed before it is launched.
void asChild(Scene &scene)
{
	const Workspace workspace(scene.session);
	const cudaGraph_t child = scene.capture(*scene.same[0]);
	cudaGraph_t graph = nullptr;
	cudaGraphNode_t node = nullptr;
	CHECK(cudaGraphCreate(&graph, 0));
	CHECK(cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
	CHECK(cudaGraphDestroy(child));
	const cudaGraphExec_t executable = instantiate(graph);
	CHECK(cudaGraphDestroy(graph));
	scene.expect(0, executable);
	scene.expect(0, executable);
	CHECK(cudaGraphExecDestroy(executable));
}

// Launched into a capture.
void launchedInCapture(Scene &scene)
{
	const Workspace workspace(scene.session);
	const cudaGraph_t inner = scene.capture(*scene.same[0]);
	const cudaGraphExec_t innerExecutable = instantiate(inner);
	CHECK(cudaGraphDestroy(inner));
	const cudaGraph_t outer = scene.capture([&] { CHECK(cudaGraphLaunch(innerExecutable, scene.session.stream)); });
	const cudaGraphExec_t executable = instantiate(outer);
	CHECK(cudaGraphDestroy(outer));
	CHECK(cudaGraphExecDestroy(innerExecutable));
	scene.expect(0, executable);
	CHECK(cudaGraphExecDestroy(executable));
}

// A clone of a clone, after both originals were destroyed.
void cloned(Scene &scene)
{
	const Workspace workspace(scene.session);
	const cudaGraph_t first = scene.capture(*scene.same[1]);
	cudaGraph_t second = nullptr, third = nullptr;
	CHECK(cudaGraphClone(&second, first));
	CHECK(cudaGraphDestroy(first));
	CHECK(cudaGraphClone(&third, second));
	const cudaGraphExec_t one = instantiate(second);
	CHECK(cudaGraphDestroy(second));
	const cudaGraphExec_t two = instantiate(third);
	CHECK(cudaGraphDestroy(third));
	scene.expect(1, two);
	CHECK(cudaGraphExecDestroy(two));
	scene.expect(1, one);
	CHECK(cudaGraphExecDestroy(one));
}

// Two streams, between which the driver keeps the order; and destroyed while it is still running.
void launchedTwice(Scene &scene)
{
	const cudaGraph_t graph = scene.capture(*scene.same[0]);
	const cudaGraphExec_t executable = instantiate(graph);
	CHECK(cudaGraphDestroy(graph));
	scene.same[0]->setScalars(1, 0); // or the second one would add to the first
	scene.bits[0] = eagerBits(scene.session, *scene.same[0]);
	const cudaGraph_t plain = scene.capture(*scene.same[0]);
	scene.line.put("statuses", update(executable, plain));
	scene.expect(0, [&] {
		CHECK(cudaGraphLaunch(executable, scene.session.stream));
		CHECK(cudaGraphLaunch(executable, scene.other.stream));
		CHECK(cudaGraphExecDestroy(executable));
	});
}

// Its result is in memory that the graph itself allocates and frees.
void intoItsOwnMemory(Scene &scene)
{
	Problem &problem = *scene.same[0];
	const Spec &spec = problem.spec;
	const size_t bytes = problem.c.array.size() * sizeof(float);
	const cudaStream_t stream = scene.session.stream;
	const cudaGraph_t graph = scene.capture([&] {
		float *own = nullptr;
		CHECK(cudaMallocAsync(reinterpret_cast<void **>(&own), bytes, stream));
		CHECK(cudaMemcpyAsync(own, problem.c.array.data(), bytes, cudaMemcpyDeviceToDevice, stream));
		scene.line.require(cublasSgemm(scene.session.handle, CUBLAS_OP_N, CUBLAS_OP_N, spec.m, spec.n, spec.k,
		                               &spec.alpha, problem.a.array.data(), spec.m, problem.b.array.data(), spec.k,
		                               &spec.beta, own, spec.m) == 0,
		                   "a call failed");
		CHECK(cudaMemcpyAsync(problem.c.array.data(), own, bytes, cudaMemcpyDeviceToDevice, stream));
		CHECK(cudaFreeAsync(own, stream));
	});
	const cudaGraphExec_t executable = instantiate(graph);
	CHECK(cudaGraphDestroy(graph));
	scene.expect(0, executable);
	scene.expect(0, executable);
	CHECK(cudaGraphExecDestroy(executable));
}

// Graphs that were never launched release everything.
void many(Scene &scene)
{
	for (int cycle = 0; cycle < 200; cycle++) {
		const cudaGraph_t graph = scene.capture(*scene.same[0]);
		CHECK(cudaGraphExecDestroy(instantiate(graph)));
		CHECK(cudaGraphDestroy(graph));
	}
}

// Device memory after a case: the case has released all its memory.
void staged(void (*play)(Scene &), Line &line)
{
	Session session;
	Problem problem({.m = 92});
	eagerBits(session, problem);
	const size_t before = freeMemory();
	{
		Scene scene(line);
		play(scene);
	}
	std::this_thread::sleep_for(std::chrono::milliseconds(20));
	eagerBits(session, problem); // frees the memory that graphs released
	line.put("lost", static_cast<long long>(before) - static_cast<long long>(freeMemory()));
	problem.describe(line);
}

// ---- streams and handles

// Uses up `count` objects, and measures the growth after the first tenth. The result is twice the lesser growth of two
// halves, because a process also grows once for its own reasons.
void flat(int count, const std::function<void(int, Problem &)> &use, Line &line)
{
	Problem problem({.m = 93, .n = 8, .k = 8});
	problem.upload();
	size_t free = 0;
	long long resident[3] = {};
	for (int i = 0; i < count; i++) {
		if (i == count / 10)
			free = freeMemory(), resident[0] = residentBytes();
		if (i == count / 20 * 11)
			CHECK(cudaDeviceSynchronize()), resident[1] = residentBytes();
		use(i, problem);
		if (i % 50 == 0)
			CHECK(cudaDeviceSynchronize());
	}
	line.put("lost", static_cast<long long>(free) - static_cast<long long>(freeMemory()));
	resident[2] = residentBytes();
	line.put("grown", 2 * std::min(resident[1] - resident[0], resident[2] - resident[1])).put("calls", count);
	problem.download();
	line.require(problem.compare().eta < worst, "wrong result");
	problem.describe(line);
}

void destroyedStreams(Line &line)
{
	Session session;
	flat(
	    10000,
	    [&](int, Problem &problem) {
		    cudaStream_t stream = nullptr;
		    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
		    CHECK(cublasSetStream(session.handle, stream));
		    line.require(problem.call(session.handle) == 0, "a call failed");
		    CHECK(cudaStreamDestroy(stream));
		    CHECK(cublasSetStream(session.handle, session.stream));
	    },
	    line);
}

void aliveStreams(Line &line)
{
	Session session;
	std::vector<cudaStream_t> streams(10000);
	flat(
	    10000,
	    [&](int i, Problem &problem) {
		    cudaStream_t &stream = streams[static_cast<size_t>(i)];
		    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
		    CHECK(cublasSetStream(session.handle, stream));
		    line.require(problem.call(session.handle) == 0, "a call failed");
	    },
	    line);
	CHECK(cublasSetStream(session.handle, session.stream));
	for (const cudaStream_t stream : streams)
		CHECK(cudaStreamDestroy(stream));
}

void handles(bool isLight, Line &line)
{
	Session session;
	flat(
	    1000,
	    [&](int, Problem &problem) {
		    problem.spec.door = isLight ? Interception::ltMatmul : Interception::sgemm;
		    problem.spec.ltHandle = LtHandle::own;
		    cublasHandle_t handle = session.handle;
		    cublasLtHandle_t light = nullptr;
		    CHECK(isLight ? cublasLtCreate(&light) : cublasCreate(&handle));
		    line.require(problem.call(handle, light) == 0, "a call failed");
		    CHECK(isLight ? cublasLtDestroy(light) : cublasDestroy(handle));
	    },
	    line);
}

// ---- a device without memory

struct Greedy {
	// Allocates everything except `rest` bytes.
	explicit Greedy(size_t rest)
	{
		for (size_t step = size_t{1} << 30; step >= 4096; step /= 2)
			while (freeMemory() >= rest + step) {
				void *piece = nullptr;
				CHECK(cudaMalloc(&piece, step)); // memory that is reported as free can be allocated
				pieces.push_back(piece);
			}
	}
	~Greedy()
	{
		for (void *piece : pieces)
			CHECK(cudaFree(piece));
	}
	std::vector<void *> pieces;
};

// Eager and captured, while memory is available, then exhausted except for one `part`, then available again. Only the
// precision of the results may change.
void full(bool isFirst, size_t part, Line &line)
{
	Session session;
	Problem problem({.m = 600, .n = 590, .k = 600, .beta = 0.5f});
	const auto eager = [&](const char *name) {
		problem.restore();
		line.bits(name, eagerBits(session, problem));
		line.require(problem.compare().eta < worst, "wrong result");
	};
	const size_t before = freeMemory();
	if (!isFirst)
		eager("before_bits");
	CHECK(cudaDeviceSynchronize());
	line.put("held", static_cast<long long>(before) - static_cast<long long>(freeMemory()));
	{
		size_t free = 0, total = 0;
		CHECK(cudaMemGetInfo(&free, &total));
		const Greedy greedy(total / part);
		eager("full_bits");
		problem.restore();
		problem.upload();
		CHECK(cudaDeviceSynchronize());
		cudaGraph_t graph = nullptr;
		CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeGlobal));
		line.put("status", problem.call(session.handle));
		CHECK(cudaStreamEndCapture(session.stream, &graph));
		const cudaGraphExec_t executable = instantiate(graph);
		CHECK(cudaGraphLaunch(executable, session.stream));
		CHECK(cudaDeviceSynchronize());
		line.bits("captured_bits", resultBits(problem));
		CHECK(cudaGraphExecDestroy(executable));
		CHECK(cudaGraphDestroy(graph));
	}
	eager("after_bits");
	line.put("eta", problem.compare().eta);
	line.require(cudaGetLastError() == cudaSuccess, "an error is left");
	problem.describe(line);
}

} // namespace

int main(int argc, char **argv)
{
	std::vector<Case> cases = {
	    {"streams.destroyed", destroyedStreams},
	    {"streams.alive", aliveStreams},
	    {"handles.cublas", [](Line &line) { handles(false, line); }},
	    {"handles.lt", [](Line &line) { handles(true, line); }},
	    {"full.later", [](Line &line) { full(false, 50, line); }},
	    {"full.first", [](Line &line) { full(true, 50, line); }},
	    {"full.nothing", [](Line &line) { full(true, 2000, line); }},
	};
	const struct {
		const char *name;
		void (*play)(Scene &);
	} scenes[] = {
	    {"graphs.updated", updated},
	    {"graphs.updated_in_other_memory", updatedInOtherMemory},
	    {"graphs.child", asChild},
	    {"graphs.launched_in_capture", launchedInCapture},
	    {"graphs.cloned", cloned},
	    {"graphs.launched_twice", launchedTwice},
	    {"graphs.into_its_own_memory", intoItsOwnMemory},
	    {"graphs.many", many},
	};
	for (const auto &scene : scenes)
		cases.push_back({scene.name, [scene](Line &line) { staged(scene.play, line); }});
	return runCases(argc, argv, cases);
}
