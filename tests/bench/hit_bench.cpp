// Cost of a cached decision, without the call around it: `hit_bench [RULES] [options of Google Benchmark]`, with RULES
// rules of every kind that match other calls. `pass`: the fast path of a call that runs unchanged. `find`: the path of
// a lowered call to its site. Both read the context and the thread's memo, and query the handle (in the empty vendor:
// two calls that return immediately). `site`: the additional step if two signatures share a place in the memo.
// `decide`: the cost that the caches save.
#include "inject/autoamp.h"
#include "inject/entry_table.h"
#include "src/call/described_call.h"
#include "src/call/fast_path.h"
#include "src/life/start.h"
#include "src/place/region/api.h"
#include "src/site/device.h"

#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

using namespace autoamp;

namespace {

float one = 1, zero = 0, matrix[4];

struct Known {
	Known()
	{
		call.m = call.n = call.k = call.lda = call.ldb = call.ldc = 16;
		call.Atype = call.Btype = call.Ctype = op::typeFloat32;
		site = core::describe(info(), call).site;
	}
	core::CallInfo info() const
	{
		return {*process,
		        *thread,
		        entry,
		        interception,
		        core::callerOf(*thread, interception.returnAddress),
		        core::contextOf(*thread, core::DeviceType::cuda),
		        true};
	}

	const op::Entry &entry = entry::entryTable[0]; // cublasSgemm_v2
	const Interception interception = {0, (dlopen("libcublas.so.13", RTLD_LAZY), autoamp_front_original(0)), matrix};
	core::Process *const process = core::process();
	core::Thread *const thread = core::thisThread(*process);
	op::GemmCall call{.handle = &one, .alpha = &one, .A = matrix, .B = matrix, .beta = &zero, .C = matrix};
	core::Site *site;
};

void callOriginal(benchmark::State &state)
{
	Known known;
	benchmark::DoNotOptimize(&known);
	for (auto _ : state) {
		benchmark::ClobberMemory();
		const auto *memo =
		    core::findCached(*known.thread, 0, known.entry, known.interception.returnAddress, known.call);
		if (!memo)
			std::abort();
		benchmark::DoNotOptimize(memo);
	}
}

void find(benchmark::State &state)
{
	Known known;
	benchmark::DoNotOptimize(&known);
	for (auto _ : state) {
		benchmark::ClobberMemory();
		if (core::describe(known.info(), known.call).site != known.site)
			std::abort();
	}
}

void site(benchmark::State &state)
{
	Known known;
	benchmark::DoNotOptimize(&known);
	policy::Device device;
	core::deviceAt(*known.process, 0, device);
	for (auto _ : state)
		if (&core::findSite(known.site->op, known.site->context, device) != known.site)
			std::abort();
}

void decide(benchmark::State &state)
{
	Known known;
	benchmark::DoNotOptimize(&known);
	policy::Device device;
	core::deviceAt(*known.process, 0, device);
	for (auto _ : state) {
		benchmark::ClobberMemory();
		const uint32_t context = known.site->context;
		policy::Decision decision = policy::decide(known.site->op, core::regionOf(context).policy->state,
		                                           core::whereOf(context, known.site->op), device);
		benchmark::DoNotOptimize(decision);
	}
}

// Like an AUTOAMP_CONFIG file, but in memory.
std::string fileOf(int rules)
{
	static const char *const matchers[] = {"entry = \"cublasLt*\"\nm = ", "caller = \"lib%\"\nm = ", "m = 1000000",
	                                       "thread = \"worker-%\"\nm = ", "region = \"r*\"\nm = 1000000"};
	const int file = memfd_create("rules", 0);
	for (int i = 0; i < rules; i++) {
		std::string text = "[[rule]]\n" + (matchers[i % 5] + std::to_string(i)) + "\nprecision = \"bfloat16\"\n";
		if (write(file, text.data(), text.size()) < 0)
			std::abort();
	}
	return "/proc/self/fd/" + std::to_string(file);
}

} // namespace

int main(int count, char **arguments)
{
	const int rules = count > 1 ? std::atoi(arguments[1]) : 0;
	setenv("AUTOAMP_CONFIG", fileOf(rules).c_str(), 1);
	setenv("AUTOAMP_TRACE", "off", 1);
	const std::pair<const char *, void (*)(benchmark::State &)> ways[] = {
	    {"pass", callOriginal}, {"find", find}, {"site", site}, {"decide", decide}};
	for (const bool isInside : {false, true})
		for (const auto &[name, way] : ways)
			benchmark::RegisterBenchmark((std::string(name) + (isInside ? " in a region" : "")).c_str(),
			                             [way = way, isInside](benchmark::State &state) {
				                             autoamp_region region = AUTOAMP_REGION;
				                             region.name = "region", region.dtype = "bfloat16";
				                             if (isInside && core::regionCalls.enter(&region, nullptr))
					                             std::abort();
				                             way(state);
				                             if (isInside)
					                             core::regionCalls.leave(0);
			                             });
	benchmark::Initialize(&count, arguments);
	benchmark::RunSpecifiedBenchmarks();
}
