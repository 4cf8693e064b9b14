// Calls of driver functions per product, as counted by the emulated device: those that autoamp makes, because the
// emulated cuBLAS makes none. The first products of a signature are not counted.
#include "harness.h"

#include "src/cuda/driver.h"

#include <dlfcn.h>
#include <map>

using namespace client;

namespace {

constexpr int uncounted = 8, counted = 20;

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

void count(Spec spec, bool hasOwnStream, Line &line)
{
	Session session;
	if (!hasOwnStream)
		CHECK(cublasSetStream(session.handle, nullptr));
	Problem problem(spec);
	problem.upload();
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < uncounted; i++)
		line.require(problem.call(session.handle, session.light) == 0, "refused");
	CHECK(cudaDeviceSynchronize());
	const auto before = calls();
	for (int i = 0; i < counted; i++)
		line.require(problem.call(session.handle, session.light) == 0, "refused");
	unsigned long total = 0;
	for (const auto &[name, number] : calls()) {
		const unsigned long made = number - before.at(name);
		line.require(made % counted == 0, "not the same at every call");
		total += made;
		if (made)
			line.put(name.c_str(), static_cast<long long>(made / counted));
	}
	line.put("total", static_cast<long long>(total / counted));
	CHECK(cudaDeviceSynchronize());
	problem.download();
	line.require(problem.compare().eta < 4e-3, "wrong result");
	problem.describe(line);
}

} // namespace

int main(int argc, char **argv)
{
	const Spec batch = {.door = Interception::sgemmBatched, .m = 52, .batch = 3};
	Spec onDevice = batch;
	onDevice.hasDeviceScalars = true, onDevice.m = 53;
	return runCases(argc, argv,
	                {{"gemm", [](Line &line) { count({.m = 50}, true, line); }},
	                 {"gemm.null_stream", [](Line &line) { count({.m = 51}, false, line); }},
	                 {"lt", [](Line &line) { count({.door = Interception::ltMatmul, .m = 54}, true, line); }},
	                 {"batch", [=](Line &line) { count(batch, true, line); }},
	                 {"batch.device_scalars", [=](Line &line) { count(onDevice, true, line); }}});
}
