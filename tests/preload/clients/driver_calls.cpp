// Calls of driver functions per product, as counted by the emulated device: those that autoamp makes, because the
// emulated cuBLAS makes none. The first products of a signature are not counted.
#include "harness.h"

#include "src/cuda/driver.h"

#include <dlfcn.h>
#include <map>

using namespace client;

namespace {

constexpr int uncounted = 8, counted = 20, observations = 3;

std::map<std::string, unsigned long> calls()
{
	auto *const of = reinterpret_cast<unsigned long (*)(const char *)>(dlsym(RTLD_DEFAULT, "autoamp_emulated_calls"));
	std::map<std::string, unsigned long> all;
#define X(name, arguments)                                                                                             \
	if (of)                                                                                                            \
		all[#name] = of(#name);
	AUTOAMP_DRIVER_FUNCTIONS(X)
#undef X
	return all;
}

// The host waits after each product: a weight is known to stay the same as soon as possible, and the memory pool grows
// in the first product only.
void run(Session &session, Problem &problem, int products, Line &line)
{
	for (int i = 0; i < products; i++) {
		line.require(problem.call(session.handle, session.light) == 0, "refused");
		CHECK(cudaDeviceSynchronize());
	}
}

void warm(Session &session, Problem &problem, int products, Line &line)
{
	problem.upload();
	CHECK(cudaDeviceSynchronize());
	run(session, problem, products, line);
}

void count(Session &session, Problem &problem, int products, Line &line)
{
	const auto before = calls();
	run(session, problem, products, line);
	const auto divisor = static_cast<unsigned long>(products);
	unsigned long total = 0;
	for (const auto &[name, number] : calls()) {
		const unsigned long made = number - before.at(name);
		line.require(made % divisor == 0, "not the same at every call");
		total += made;
		if (made)
			line.put(name.c_str(), static_cast<long long>(made / divisor));
	}
	line.put("total", static_cast<long long>(total / divisor));
	problem.download();
	line.require(problem.compare().eta < 4e-3, "wrong result");
	problem.describe(line);
}

void repeated(Spec spec, bool hasOwnStream, Line &line)
{
	Session session;
	if (!hasOwnStream)
		CHECK(cublasSetStream(session.handle, nullptr));
	Problem problem(spec);
	warm(session, problem, uncounted, line);
	count(session, problem, counted, line);
}

// The first four products with a weight are observed. Another weight has made the signature known.
void observed(Spec spec, Line &line)
{
	Session session;
	Problem known(spec), problem(spec);
	warm(session, known, uncounted, line);
	warm(session, problem, 1, line); // the pool grows
	count(session, problem, observations, line);
}

} // namespace

int main(int argc, char **argv)
{
	const Spec batch = {.door = Interception::sgemmBatched, .m = 52, .batch = 3};
	Spec onDevice = batch;
	onDevice.hasDeviceScalars = true, onDevice.m = 53;
	constexpr Spec weight = {.m = 512, .n = 4, .k = 512}; // A has 1 MiB: the least for a kept copy
	Spec newWeight = weight;
	newWeight.n = 5;
	return runCases(argc, argv,
	                {{"gemm", [](Line &line) { repeated({.m = 50}, true, line); }},
	                 {"gemm.null_stream", [](Line &line) { repeated({.m = 51}, false, line); }},
	                 {"lt", [](Line &line) { repeated({.door = Interception::ltMatmul, .m = 54}, true, line); }},
	                 {"batch", [=](Line &line) { repeated(batch, true, line); }},
	                 {"batch.device_scalars", [=](Line &line) { repeated(onDevice, true, line); }},
	                 {"weight", [=](Line &line) { repeated(weight, true, line); }},
	                 {"weight.observed", [=](Line &line) { observed(newWeight, line); }}});
}
