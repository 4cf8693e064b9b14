// A program that runs CLIENT_SCRIPT, word by word, and marks its position by every switch that a profiler may use. It
// does not depend on autoamp.
#include "harness.h"
#include "ranges.h"

#include <cuda_profiler_api.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <memory>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace client;

namespace {

// Made at the first product: before it the libraries are not used.
struct Work {
	Session session;
	Problem lowered{{.m = 64, .n = 64, .k = 64}}, kept{{.m = 65, .n = 64, .k = 64, .mathMode = CUBLAS_PEDANTIC_MATH}};
	Array other{1000};
	cudaGraphExec_t exec = nullptr;

	Work()
	{
		lowered.upload();
		kept.upload();
	}
	int call(Problem &problem)
	{
		CHECK(cublasSetMathMode(session.handle, problem.spec.mathMode));
		return static_cast<int>(problem.call(session.handle));
	}
	void capture()
	{
		cudaGraph_t graph = nullptr;
		CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeGlobal));
		call(lowered);
		CHECK(cudaStreamEndCapture(session.stream, &graph));
		CHECK(cudaGraphInstantiate(&exec, graph, 0));
		CHECK(cudaGraphDestroy(graph));
	}
};
std::unique_ptr<Work> work;
Work &theWork()
{
	if (!work)
		work = std::make_unique<Work>();
	return *work;
}

int lookedUp(const char *file, const char *name)
{
	void *const library = dlopen(file, RTLD_LAZY);
	auto *const function = library ? reinterpret_cast<int (*)()>(dlsym(library, name)) : nullptr;
	return function ? function() : -1;
}

int calls = 0, failures = 0;
bool isChild = false; // in a child the switch fails, like all of CUDA
std::vector<uint64_t> started;
std::atomic<bool> isHeld{false};
std::thread *holder; // must not be ended by the forked child

void step(const std::string &word, Line &line)
{
	const size_t colon = word.find(':');
	const std::string verb = word.substr(0, colon), rest = colon == word.npos ? "" : word.substr(colon + 1);
	const int number = atoi(rest.c_str());
	const auto at = rest.rfind('/'); // NAME or NAME/FORM
	const std::string name = rest.substr(0, at);
	const int form = at == rest.npos ? 0 : atoi(rest.c_str() + at + 1);
	if (verb == "call" || verb == "kept") {
		Work &all = theWork();
		for (int i = 0; i < std::max(number, 1); i++, calls++)
			failures += all.call(verb == "call" ? all.lowered : all.kept) != 0;
	} else if (verb == "raw") { // in a forked child, where CUDA does not work: an error, and nothing else
		const float one = 1, zero = 0;
		float *const data = theWork().other.data();
		for (int i = 0; i < std::max(number, 1); i++)
			line.require(cublasSgemm(theWork().session.handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, 8, 8, &one, data, 8, data,
			                         8, &zero, data, 8) != CUBLAS_STATUS_SUCCESS,
			             "CUDA works in a forked child");
	} else if (verb == "sync") {
		CHECK(cudaStreamSynchronize(theWork().session.stream));
	} else if (verb == "fill") {
		CHECK(cudaMemsetAsync(theWork().other.data(), 0, 4000, theWork().session.stream));
	} else if (verb == "block") { // later launches run when it is released
		CHECK(cudaLaunchHostFunc(
		    theWork().session.stream, [](void *) { usleep(300000); }, nullptr));
	} else if (verb == "graph") {
		theWork().capture(), calls++;
	} else if (verb == "replay") {
		CHECK(cudaGraphLaunch(theWork().exec, theWork().session.stream));
	} else if (verb == "start") {
		line.require((cudaProfilerStart() == cudaSuccess) != isChild, "cudaProfilerStart");
	} else if (verb == "stop") {
		line.require((cudaProfilerStop() == cudaSuccess) != isChild, "cudaProfilerStop");
	} else if (verb == "driver-start" || verb == "driver-stop") {
		line.require(lookedUp("libcuda.so.1", verb == "driver-start" ? "cuProfilerStart" : "cuProfilerStop") == 0,
		             "the driver's switch");
	} else if (verb == "looked-start" || verb == "looked-stop") {
		line.require(lookedUp("libcudart.so.13", verb == "looked-start" ? "cudaProfilerStart" : "cudaProfilerStop") ==
		                 0,
		             "the runtime's switch by name");
	} else if (verb == "push") {
		ownRanges.push(form, name.c_str());
	} else if (verb == "pop") {
		ownRanges.pop(number);
	} else if (verb == "begin") {
		started.push_back(ownRanges.start(form, name.c_str()));
	} else if (verb == "end") {
		ownRanges.end(number, started.back());
		started.pop_back();
	} else if (verb == "thread") { // a thread that ends with its ranges open
		std::thread([&] {
			for (std::istringstream words(rest); !words.eof();) {
				std::string each;
				std::getline(words, each, '+');
				step(each, line);
			}
		}).join();
	} else if (verb == "hold") { // a thread that has a range open until `release`
		std::atomic<bool> isOpen{false};
		isHeld = true;
		holder = new std::thread([&] {
			ownRanges.push(form, name.c_str());
			isOpen = true;
			while (isHeld)
				usleep(1000);
			ownRanges.pop(form);
		});
		while (!isOpen)
			usleep(1000);
	} else if (verb == "release") {
		isHeld = false;
		holder->join();
		delete holder;
	} else if (verb == "storm") { // products on three threads while a fourth one switches
		std::atomic<int> running{3};
		std::vector<std::thread> threads;
		for (int i = 0; i < 3; i++)
			threads.emplace_back([&] {
				{
					Session session;
					Problem problem({.m = 66, .n = 64, .k = 64});
					problem.upload();
					for (int j = 0; j < number; j++)
						CHECK(static_cast<cublasStatus_t>(problem.call(session.handle)));
					CHECK(cudaStreamSynchronize(session.stream));
				}
				running--;
			});
		while (running)
			line.require(cudaProfilerStart() == cudaSuccess && cudaProfilerStop() == cudaSuccess, "the switch");
		for (std::thread &thread : threads)
			thread.join();
		calls += 3 * number;
	} else if (verb == "sleep") {
		usleep(static_cast<unsigned>(number) * 1000);
	} else if (verb == "kill") {
		line.put("calls", calls).print();
		fflush(stdout);
		raise(SIGKILL);
	} else {
		line.require(false, word.c_str());
	}
}

void script(Line &line)
{
	std::istringstream words(getenv("CLIENT_SCRIPT"));
	for (std::string word; words >> word;) {
		if (word != "fork") {
			step(word, line);
			continue;
		}
		const pid_t child = fork(); // runs the words up to `join`
		isChild = child == 0;
		while (words >> word && word != "join")
			if (isChild)
				step(word, line);
		if (isChild)
			exit(0);
		int status = 0;
		waitpid(child, &status, 0);
		line.require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child");
	}
	line.put("calls", calls).put("failures", failures);
	if (!work)
		return;
	CHECK(cudaStreamSynchronize(work->session.stream));
	for (Problem *problem : {&work->lowered, &work->kept}) {
		problem->download();
		line.bits(problem == &work->lowered ? "lowered_bits" : "kept_bits", problem->result().array.bits());
	}
	if (work->exec)
		CHECK(cudaGraphExecDestroy(work->exec));
	work.reset();
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, {{"script", script}});
}
