// Products whose kernels are traced: eager, replayed, on many threads, and with another CUPTI client. Some cases call
// libcupti directly. It does not depend on autoamp.
#include "harness.h"

#include <cuda.h>
#include <cupti.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <memory>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace client;

namespace {

// `calls` products of one signature, checked; the result is their bits.
void multiply(Session &session, Problem &problem, int calls, Line &line)
{
	CHECK(cublasSetMathMode(session.handle, problem.spec.mathMode));
	problem.upload();
	for (int i = 0; i < calls; i++)
		line.require(problem.call(session.handle, session.light) == 0, "a product failed");
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	line.require(problem.compare().eta < 4e-3, "wrong result");
	problem.describe(line);
	line.put("calls", calls).bits("bits", problem.result().array.bits());
}

void eager(Line &line)
{
	Session session;
	Problem problem({.m = 50});
	multiply(session, problem, 5, line);
}

void light(Line &line)
{
	Session session;
	Problem problem({.door = Interception::ltMatmul, .m = 51});
	multiply(session, problem, 5, line);
}

void kept(Line &line)
{
	Session session;
	Problem problem({.m = 52, .mathMode = CUBLAS_PEDANTIC_MATH});
	multiply(session, problem, 5, line);
}

// A fill by the program itself, next to the products: it belongs to no call.
void beside(Line &line)
{
	Session session;
	Array other(1000);
	CHECK(cudaMemsetAsync(other.data(), 0, 4000, session.stream));
	CHECK(cudaStreamSynchronize(session.stream)); // before the first product, so it is not traced
	Problem problem({.m = 53});
	multiply(session, problem, 2, line);
	CHECK(cudaMemsetAsync(other.data(), 0, 4000, session.stream));
	CHECK(cudaStreamSynchronize(session.stream));
}

void graph(Line &line)
{
	constexpr int replays = 4;
	Session session;
	Problem problem({.m = 54});
	multiply(session, problem, 1, line); // prepares the captured call
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t exec = nullptr;
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeGlobal));
	line.require(problem.call(session.handle) == 0, "a captured product failed");
	CHECK(cudaStreamEndCapture(session.stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	for (int i = 0; i < replays; i++)
		CHECK(cudaGraphLaunch(exec, session.stream));
	CHECK(cudaStreamSynchronize(session.stream));
	CHECK(cudaGraphExecDestroy(exec));
	problem.download();
	line.require(problem.compare().eta < 4e-3, "wrong result of a replay");
	line.put("replays", replays);
}

// On `count` threads at once, each with its own signature; on their own streams, or on the stream of each thread.
void threads(int count, int calls, bool isPerThread, Line &line)
{
	std::vector<std::unique_ptr<Line>> lines;
	std::vector<std::thread> running;
	for (int i = 0; i < count; i++)
		lines.push_back(std::make_unique<Line>("thread"));
	for (int i = 0; i < count; i++)
		running.emplace_back([&lines, i, calls, isPerThread] {
			Session session;
			const cudaStream_t own = session.stream;
			if (isPerThread)
				CHECK(cublasSetStream(session.handle, session.stream = cudaStreamPerThread));
			Problem problem({.m = 60 + i});
			multiply(session, problem, calls, *lines[static_cast<size_t>(i)]);
			session.stream = own;
		});
	for (std::thread &one : running)
		one.join();
	for (const auto &one : lines)
		line.require(one->isOk(), "a thread's products");
	line.put("count", count).put("calls", calls);
}

// The context is destroyed before the process ends: records arrive later.
void reset(Line &line)
{
	{
		Session session;
		Problem problem({.m = 55});
		multiply(session, problem, 3, line);
	}
	CHECK(cudaDeviceReset());
}

// And is created again: after the runtime's reset, and after the driver's.
void resets(Line &line)
{
	reset(line);
	void *const library = dlopen("libcuda.so.1", RTLD_NOW);
	auto *const again =
	    reinterpret_cast<decltype(&cuDevicePrimaryCtxReset)>(dlsym(library, "cuDevicePrimaryCtxReset_v2"));
	for (int m : {58, 59}) {
		Line part("part");
		{
			Session session;
			Problem problem({.m = m});
			multiply(session, problem, 3, part);
		}
		line.require(part.isOk() && again(0) == CUDA_SUCCESS, "after a reset");
	}
}

void forks(Line &line)
{
	Session session;
	Problem problem({.m = 56});
	multiply(session, problem, 2, line);
	for (const bool isAtOnce : {true, false}) { // a child that ends without a call
		const pid_t child = fork();
		if (child == 0)
			isAtOnce ? _exit(5) : exit(5);
		int status = 0;
		waitpid(child, &status, 0);
		line.require(WIFEXITED(status) && WEXITSTATUS(status) == 5, "the child that makes no call");
	}
	const pid_t child = fork();
	if (child == 0) {
		const float one = 1, zero = 0;
		const auto side = static_cast<int>(problem.a.ld); // CUDA does not work here: an error, and nothing else
		exit(cublasSgemm(session.handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, problem.a.array.data(), side,
		                 problem.b.array.data(), static_cast<int>(problem.b.ld), &zero, problem.c.array.data(), side)
		         ? 3
		         : 4);
	}
	int status = 0;
	waitpid(child, &status, 0);
	line.require(WIFEXITED(status) && WEXITSTATUS(status) == 3, "the child");
	multiply(session, problem, 2, line);
}

// No exit handler runs: after some calls that were recorded, and some that cannot have been.
void dies(Line &line, void (*die)())
{
	Session session;
	Problem problem({.m = 57});
	multiply(session, problem, 1, line);
	usleep(1'300'000); // the next one is between two flushes
	multiply(session, problem, 2, line);
	sleep(4);
	for (int i = 0; i < 2; i++)
		line.require(problem.call(session.handle) == 0, "a product failed");
	CHECK(cudaStreamSynchronize(session.stream));
	line.print();
	fflush(stdout);
	die();
}

// The main thread ends, other threads do not: one is never joined, one is detached. Work is still on the device.
void leave(Line &line, bool isForever)
{
	Session session;
	Problem problem({.m = 57});
	multiply(session, problem, 2, line);
	static const auto work = [](int m) {
		usleep(300'000);
		Line part("worker");
		{
			Session own;
			Problem product({.m = m});
			multiply(own, product, 3, part);
		}
		part.print();
		fflush(stdout);
		return nullptr;
	};
	pthread_t thread;
	line.require(pthread_create(
	                 &thread, nullptr, [](void *) -> void * { return work(58); }, nullptr) == 0,
	             "pthread_create");
	std::thread([] { work(59); }).detach();
	if (isForever)
		std::thread([] {
			sleep(4); // longer than any period of a helper thread
			exit(9);
		}).detach();
	line.print();
	atexit([] { puts("handlers ran=1"); });
	fflush(stdout);
	pthread_exit(nullptr);
}

// As many kernels as the device can queue, then the exit, without a synchronisation.
void queued(Line &line)
{
	atexit([] { // runs after handlers that are registered later
		rusage usage = {};
		getrusage(RUSAGE_SELF, &usage);
		printf("peak kib=%ld\n", usage.ru_maxrss);
	});
	static Session session; // its destructor would wait
	static Problem problem({.m = 8, .n = 8, .k = 8});
	multiply(session, problem, 1, line);
	constexpr int calls = 70'000;
	for (int i = 0; i < calls; i++)
		line.require(problem.call(session.handle) == 0, "a product failed");
	line.put("queued", calls);
	line.print();
	exit(0);
}

// The process is killed before CUPTI returns the last kernels.
void queuedAndKilled(Line &line)
{
	Session session;
	Problem problem({.m = 57});
	multiply(session, problem, 1, line);
	usleep(1'300'000);
	for (int i = 0; i < 1000; i++)
		line.require(problem.call(session.handle) == 0, "a product failed");
	line.put("queued", 1000);
	line.print();
	fflush(stdout);
	raise(SIGKILL);
}

// More kernels than can be checked one by one for their times.
void many(Line &line)
{
	Session session;
	Problem problem({.m = 8, .n = 8, .k = 8});
	multiply(session, problem, 1400, line);
}

// Kineto and other tools subscribe to CUPTI, which serves one client: before the first product, or after it.
void subscribe(Line &line)
{
	char holder[128] = "";
	void *const library = dlopen("libcupti.so.13", RTLD_NOW);
	auto *const subscribe =
	    reinterpret_cast<decltype(&cuptiSubscribe_v2)>(library ? dlsym(library, "cuptiSubscribe_v2") : nullptr);
	if (!subscribe)
		return line.require(false, "no libcupti");
	CUpti_SubscriberParams parameters = {};
	parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
	parameters.subscriberName = "Kineto";
	parameters.oldSubscriberName = holder;
	parameters.oldSubscriberSize = sizeof holder;
	CUpti_SubscriberHandle subscriber = nullptr;
	line.put("status", subscribe(
	                       &subscriber, [](void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *) {}, nullptr,
	                       &parameters));
	std::string name = holder;
	for (char &letter : name)
		letter = letter == ' ' ? '_' : letter;
	line.put("holder", name.empty() ? "none" : name);
}

void first(Line &line)
{
	CHECK(cudaFree(nullptr));
	subscribe(line);
	eager(line);
}

void second(Line &line)
{
	eager(line);
	subscribe(line);
}

#define OF_CUPTI(name) reinterpret_cast<decltype(&name)>(dlsym(dlopen("libcupti.so.13", RTLD_NOW), #name))

std::atomic<int> strangers{0}; // buffers with records that were passed to the client below

// A client that registers its own buffer callbacks and subscribes to nothing. It also frees buffers that are not its
// own.
void take(Line &line)
{
	const auto request = [](uint8_t **data, size_t *size, size_t *most) {
		*data = static_cast<uint8_t *>(aligned_alloc(8, *size = 4096));
		*most = 0;
	};
	const auto complete = [](CUcontext, uint32_t, uint8_t *data, size_t, size_t valid) {
		strangers += valid > 0;
		free(data);
	};
	auto *const registers = OF_CUPTI(cuptiActivityRegisterCallbacks);
	auto *const enable = OF_CUPTI(cuptiActivityEnable);
	line.require(registers(request, complete) == CUPTI_SUCCESS && enable(CUPTI_ACTIVITY_KIND_MEMSET) == CUPTI_SUCCESS,
	             "cuptiActivityRegisterCallbacks");
}

// Before the first product, with one of its own buffers at CUPTI.
void beforehand(Line &line)
{
	Array other(1000);
	take(line);
	CHECK(cudaMemset(other.data(), 0, 4000));
	CHECK(cudaDeviceSynchronize()); // otherwise CUPTI keeps the buffer, and also puts the next records into it
	eager(line);
}

// While CUPTI has buffers, or after it has returned all of them.
void afterwards(bool hasBuffers, Line &line)
{
	Session session;
	Problem problem({.m = 50});
	multiply(session, problem, 3, line);
	if (!hasBuffers)
		line.require(OF_CUPTI(cuptiActivityFlushAll)(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == CUPTI_SUCCESS, "flush");
	take(line);
	multiply(session, problem, 2, line);
}

// For so long that it is detected while the program runs.
void afterwardsForLong(Line &line)
{
	Session session;
	Problem problem({.m = 50});
	multiply(session, problem, 3, line);
	take(line);
	for (int i = 0; i < 36; i++) {
		line.require(problem.call(session.handle) == 0, "a product failed");
		CHECK(cudaStreamSynchronize(session.stream));
		usleep(500'000);
	}
	// The kinds that it enabled itself remain enabled.
	Array other(1000);
	auto *const flush = OF_CUPTI(cuptiActivityFlushAll);
	line.require(flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == CUPTI_SUCCESS, "cuptiActivityFlushAll");
	const int before = strangers;
	CHECK(cudaMemset(other.data(), 0, 4000));
	line.require(flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) == CUPTI_SUCCESS, "cuptiActivityFlushAll");
	line.put("strangers", strangers - before);
	line.print();
	fflush(stdout);
	_exit(line.isOk() ? 0 : 1); // the recording ended before this point
}

void finalized(Line &line)
{
	Session session;
	Problem problem({.m = 50});
	multiply(session, problem, 3, line);
	line.require(OF_CUPTI(cuptiFinalize)() == CUPTI_SUCCESS, "cuptiFinalize");
	multiply(session, problem, 2, line);
}

// Kernels of given names: KERNEL_NAMES, one a line, from a plug-in of the emulated device.
int launchNamed(CUstream stream, Line &line)
{
	void *const library = dlopen("libcuda.so.1", RTLD_NOW);
	auto *const load = reinterpret_cast<decltype(&cuLibraryLoadData)>(dlsym(library, "cuLibraryLoadData"));
	auto *const find = reinterpret_cast<decltype(&cuLibraryGetKernel)>(dlsym(library, "cuLibraryGetKernel"));
	auto *const launch = reinterpret_cast<decltype(&cuLaunchKernel)>(dlsym(library, "cuLaunchKernel"));
	static CUlibrary image = nullptr;
	line.require(image || load(&image, ".version 8.0\n.target sm_75\n", nullptr, nullptr, 0, nullptr, nullptr, 0) ==
	                          CUDA_SUCCESS,
	             "cuLibraryLoadData");
	const char *const list = getenv("KERNEL_NAMES");
	int launches = 0;
	for (std::string rest = list ? list : ""; !rest.empty();) {
		const std::string name = rest.substr(0, rest.find('\n'));
		rest.erase(0, name.size() + 1);
		CUkernel kernel = nullptr;
		line.require(find(&kernel, image, name.c_str()) == CUDA_SUCCESS, name.c_str());
		line.require(launch(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr) ==
		                 CUDA_SUCCESS,
		             "cuLaunchKernel");
		launches++;
	}
	return launches;
}

void named(Line &line)
{
	eager(line);
	line.put("launches", launchNamed(nullptr, line));
	CHECK(cudaDeviceSynchronize());
}

// A graph that was made before the recording started, and replayed afterwards.
void oldGraph(Line &line)
{
	constexpr int replays = 3;
	Session session;
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t exec = nullptr;
	launchNamed(session.stream, line); // loads them before the capture
	CHECK(cudaStreamSynchronize(session.stream));
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeGlobal));
	const int nodes = launchNamed(session.stream, line);
	CHECK(cudaStreamEndCapture(session.stream, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	eager(line);
	for (int i = 0; i < replays; i++)
		CHECK(cudaGraphLaunch(exec, session.stream));
	CHECK(cudaStreamSynchronize(session.stream));
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
	line.put("nodes", nodes).put("replays", replays);
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv,
	                {{"eager", eager},
	                 {"light", light},
	                 {"kept", kept},
	                 {"beside", beside},
	                 {"graph", graph},
	                 {"threads", [](Line &line) { threads(4, 30, false, line); }},
	                 {"crowd", [](Line &line) { threads(80, 3, false, line); }},
	                 {"per_thread", [](Line &line) { threads(4, 5, true, line); }},
	                 {"reset", reset},
	                 {"resets", resets},
	                 {"fork", forks},
	                 {"killed", [](Line &line) { dies(line, [] { raise(SIGKILL); }); }},
	                 {"left", [](Line &line) { dies(line, [] { _exit(7); }); }},
	                 {"many", many},
	                 {"leaves", [](Line &line) { leave(line, false); }},
	                 {"leaves_workers", [](Line &line) { leave(line, true); }},
	                 {"queued", queued},
	                 {"queued_and_killed", queuedAndKilled},
	                 {"beforehand", beforehand},
	                 {"afterwards", [](Line &line) { afterwards(true, line); }},
	                 {"after_flush", [](Line &line) { afterwards(false, line); }},
	                 {"for_long", afterwardsForLong},
	                 {"finalized", finalized},
	                 {"first", first},
	                 {"second", second},
	                 {"named", named},
	                 {"old_graph", oldGraph}});
}
