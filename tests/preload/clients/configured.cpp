// Products that differ in what a rule can ask for: the door, the sizes, the thread. And one who changes files and the
// environment between two of them, as the variables CLIENT_* say.
#include "harness.h"

#include <cstdlib>
#include <fstream>
#include <pthread.h>
#include <thread>

using namespace client;

namespace {

void product(Line &line, const Spec &spec)
{
	Session session;
	Problem(spec).runOn(session, line);
}

double errorOf(Session &session, Problem &problem)
{
	problem.upload();
	CHECK(static_cast<cublasStatus_t>(problem.call(session.handle, session.light)));
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	return problem.compare().eta;
}

// The same product from the main thread, and from threads of two names, in turn.
void threads(Line &line)
{
	Session session;
	Problem problem({.m = 70});
	line.put("eta_main", errorOf(session, problem));
	for (int turn = 0; turn < 2; turn++)
		for (const char *name : {"worker-7", "loader"})
			std::thread([&] {
				pthread_setname_np(pthread_self(), name);
				line.put((name + ("_" + std::to_string(turn))).c_str(), errorOf(session, problem));
			}).join();
	problem.describe(line);
}

void rewrites(Line &line)
{
	Session session;
	Problem first({.m = 71}), second({.m = 72});
	line.put("eta_before", errorOf(session, first));
	std::ofstream(std::getenv("CLIENT_FILE"), std::ios::trunc) << std::getenv("CLIENT_TEXT");
	setenv(std::getenv("CLIENT_VARIABLE"), std::getenv("CLIENT_VALUE"), 1);
	line.put("eta_after", errorOf(session, second));
	std::thread([&] { line.put("eta_thread", errorOf(session, second)); }).join();
	line.put("eta_again", errorOf(session, first));
}

} // namespace

int main(int argc, char **argv)
{
	std::vector<Case> cases = {{"threads", threads}, {"rewrites", rewrites}};
	const std::pair<const char *, Spec> products[] = {
	    {"door.sgemm", {.m = 60}},
	    {"door.gemm_ex", {.door = Door::gemmEx, .m = 61}},
	    {"door.lt", {.door = Door::ltMatmul, .m = 62}},
	    {"door.strided", {.door = Door::sgemmStridedBatched, .m = 63, .batch = 3}},
	    {"size.narrow", {.m = 64, .n = 32}},
	    {"size.wide", {.m = 64, .n = 320}},
	    {"mode.pedantic", {.m = 65, .mathMode = CUBLAS_PEDANTIC_MATH}},
	};
	for (const auto &[name, spec] : products)
		cases.push_back({name, [spec](Line &line) { product(line, spec); }});
	return runCases(argc, argv, cases);
}
