// Cost of one decision: ns per decide(), median and spread over rounds. Calls: one that the lists keep, one that the
// wrapper keeps, and products of growing size (the cost model tries more splits of k). All with rules that do not
// match.
#include "src/policy/decide.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace autoamp;
using namespace autoamp::policy;

namespace {

constexpr int rounds = 15, calls = 20000;

op::Op product(int64_t n)
{
	op::Op call;
	call.kind = op::Kind::mm;
	call.a = call.b = call.out = call.asked = op::Dtype::float32;
	call.m = call.n = call.k = n;
	return call;
}

void measure(const char *what, op::Op call, const State &state)
{
	const Device device = {&gpuConstants(GpuModel::h100, nullptr, 0), 90, true};
	double times[rounds];
	unsigned kept = 0;
	for (double &time : times) {
		auto start = std::chrono::steady_clock::now();
		for (int i = 0; i < calls; ++i) {
			call.lda = i; // a different call each time, so that nothing is hoisted out of the loop
			kept += decide(call, state, {}, device).verdict == Verdict::kept;
		}
		time = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / calls;
	}
	std::sort(times, times + rounds);
	std::printf("%-28s %7.1f ns  (%.1f .. %.1f)  %s\n", what, times[rounds / 2], times[0], times[rounds - 1],
	            kept ? "kept" : "lowered");
}

} // namespace

int main()
{
	Options off;
	off.enabled = false;
	measure("disabled", product(1024), State(off));
	op::Op vector = {};
	vector.obstacle = op::Obstacle::vector_op;
	measure("vector_op", vector, State());
	Rule rule;
	rule.asked[static_cast<size_t>(Matcher::caller)] = "lib*torch*";
	rule.asked[static_cast<size_t>(Matcher::m)] = ">4096";
	rule.range[static_cast<size_t>(Matcher::m)].low = 4097;
	State ruled;
	Rules rules;
	rules.list.assign(50, rule);
	ruled.rules = std::make_shared<const Rules>(std::move(rules));
	measure("square 1024, 50 rules", product(1024), ruled);
	for (int64_t n : {64, 512, 1024, 4096})
		measure(("square " + std::to_string(n)).c_str(), product(n), State());
}
