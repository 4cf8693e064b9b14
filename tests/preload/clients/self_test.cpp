// Products that are the first of their process: for tests of what runs before them. One case per line; see harness.h
// for the command line.
#include "harness.h"

#include <barrier>
#include <cfenv>
#include <memory>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace client;

namespace {

const Spec usual = {.m = 70, .n = 50, .k = 90};

struct Product {
	Product() { problem.upload(); }
	void call(Line &line) { line.require(problem.call(session.handle) == 0, "a call failed"); }
	void check(Line &line, const char *key)
	{
		CHECK(cudaStreamSynchronize(session.stream));
		problem.download();
		line.bits(key, problem.result().array.bits());
		line.require(problem.compare().eta < 4e-3, "wrong result");
		line.require(cudaPeekAtLastError() == cudaSuccess, "an error is pending");
	}
	Session session;
	Problem problem{usual};
};

// The state of the thread is as before.
void first(Line &line)
{
	Product product;
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaSetDevice(0));
	fesetround(FE_UPWARD);
	errno = 77;
	product.call(line);
	line.require(fegetround() == FE_UPWARD && errno == 77, "errno or the rounding mode changed");
	fesetround(FE_TONEAREST);
	product.check(line, "bits");
	product.call(line);
	product.check(line, "again_bits");
	product.problem.describe(line);
	line.putCounts();
}

void captured(Line &line)
{
	Product product;
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaStreamBeginCapture(product.session.stream, cudaStreamCaptureModeGlobal));
	product.call(line);
	CHECK(cudaStreamEndCapture(product.session.stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	CHECK(cudaGraphLaunch(executable, product.session.stream));
	product.check(line, "bits");
	CHECK(cudaGraphExecDestroy(executable));
	CHECK(cudaGraphDestroy(graph));
	line.putCounts();
}

void threads(Line &line)
{
	constexpr int count = 4;
	std::unique_ptr<Product> products[count];
	for (auto &product : products)
		product = std::make_unique<Product>();
	CHECK(cudaDeviceSynchronize());
	std::barrier barrier(count);
	std::thread all[count];
	int statuses[count];
	for (int i = 0; i < count; i++)
		all[i] = std::thread([&, i] {
			barrier.arrive_and_wait();
			statuses[i] = products[i]->problem.call(products[i]->session.handle);
		});
	for (std::thread &thread : all)
		thread.join();
	for (int i = 0; i < count; i++) {
		line.require(statuses[i] == 0, "a call failed");
		products[i]->check(line, ("bits" + std::to_string(i)).c_str());
	}
	line.putCounts();
}

void devices(Line &line)
{
	for (const int device : {0, 1, 0}) {
		CHECK(cudaSetDevice(device));
		Product product;
		CHECK(cudaDeviceSynchronize());
		product.call(line);
		product.check(line, device ? "other_bits" : "bits");
	}
	line.putCounts();
}

// Two processes at the same time.
void forked(Line &line)
{
	const pid_t child = fork();
	Line own(child ? "forked" : "child");
	first(child ? line : own);
	if (child == 0)
		_exit(own.isOk() ? 0 : 1);
	int status = 0;
	line.require(waitpid(child, &status, 0) == child && status == 0, "the child failed");
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(
	    argc, argv,
	    {{"first", first}, {"captured", captured}, {"threads", threads}, {"devices", devices}, {"forked", forked}});
}
