// Cost of recording a call: trace_bench [FOLDER]. Prints median, lowest and highest of 15 rounds, in ns per call.
#include "src/base/clock.h"
#include "tests/unit/trace_sample.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <unistd.h>
#include <vector>

using namespace trace_test;

namespace {

// CPU time, because the machine may have other work.
double threadNs()
{
	timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

constexpr int kRounds = 15, kCalls = 400000, kSpread = 1000000;

template <class Body>
void measure(const char *what, Body body)
{
	std::vector<double> rounds;
	for (int round = 0; round < kRounds; ++round) {
		const double start = threadNs();
		for (int call = 0; call < kCalls; ++call)
			body(call);
		rounds.push_back((threadNs() - start) / kCalls);
	}
	std::sort(rounds.begin(), rounds.end());
	printf("%-44s %6.1f  (%.1f .. %.1f)\n", what, rounds[kRounds / 2], rounds.front(), rounds.back());
}

} // namespace

int main(int count, char **arguments)
{
	const std::string folder = count > 1 ? arguments[1] : "/tmp", file = folder + "/trace_bench.aat";
	uint64_t sum = 0;
	measure("two readings of the clock", [&](int) { sum += autoamp::base::ticks() + autoamp::base::ticks(); });
	for (trace::Mode mode : {trace::Mode::summary, trace::Mode::ops}) {
		trace::Recorder &recorder = newRecorder();
		auto opts = options(mode, file);
		opts.maxSize = uint64_t{1} << 40;
		if (!recorder.open(opts))
			return 1;
		trace::Lane *lane = recorder.attach();
		trace::RowId ids[16];
		for (int64_t m = 0; m < 16; ++m)
			ids[m] = recorder.row(row(m + 1));
		const bool ops = mode == trace::Mode::ops;
		measure(ops ? "ops: mark, record" : "summary: mark, record", [&](int call) {
			trace::InFlight inFlight(*lane, ids[call & 15]);
			asm volatile("" ::: "memory");
			lane->record(ids[call & 15], static_cast<uint64_t>(call), static_cast<uint64_t>(call) + 7, false);
		});
		measure(ops ? "ops: mark, clock, record" : "summary: mark, clock, record", [&](int call) {
			trace::InFlight inFlight(*lane, ids[call & 15]);
			const unsigned weight = lane->timing(lane->cell(ids[call & 15]));
			const uint64_t start = weight ? autoamp::base::ticks() : 0;
			asm volatile("" ::: "memory");
			lane->record(ids[call & 15], start, weight ? autoamp::base::ticks() : 0, false, weight);
		});
		if (ops) { // as calls come from an application: every microsecond or so
			std::vector<uint32_t> costs;
			for (int call = 0; call < kSpread; ++call) {
				const uint64_t start = autoamp::base::ticks();
				lane->record(ids[call & 15], start, start + 7, false);
				const uint64_t end = autoamp::base::ticks();
				costs.push_back(static_cast<uint32_t>(end - start));
				while (autoamp::base::ticks() - start < 3000)
					;
			}
			std::sort(costs.begin(), costs.end());
			printf("ops, spread out, in ticks: p50 %u, p99 %u, p99.9 %u, p99.99 %u, most %u\n", costs[500000],
			       costs[990000], costs[999000], costs[999900], costs.back());
		}
		measure("row, known", [&](int call) { sum += recorder.row(row(call & 15)); });
		recorder.close(0);
		if (ops)
			printf("the file: %.2f bytes an event\n", static_cast<double>(std::filesystem::file_size(recorder.path())) /
			                                              (2.0 * kRounds * kCalls + kSpread));
		unlink(recorder.path());
	}
	trace::Recorder &recorder = newRecorder();
	auto opts = options(trace::Mode::kernels, file);
	opts.maxSize = uint64_t{1} << 40;
	if (!recorder.open(opts))
		return 1;
	const trace::RowId id = recorder.row(row(1));
	measure("kernels: a kernel, by the helper thread", [&](int call) {
		const auto start = static_cast<uint64_t>(call);
		const trace::KernelEvent event = {
		    start + 1, start + 8, 1, "sm90_xmma_gemm_f16f16_f16f32_f32_nt_n_tilesize64x64x64_warpgroupsize1x1x1",
		    id,        7,         0, 0};
		recorder.kernels({&event, 1}, {});
	});
	recorder.close(0);
	printf("the file: %.2f bytes a kernel\n",
	       static_cast<double>(std::filesystem::file_size(recorder.path())) / (1.0 * kRounds * kCalls));
	unlink(recorder.path());
	return sum == 0;
}
