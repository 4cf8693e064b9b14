#include "tools/autoamp/cpu_fit.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <utility>
#include <vector>

using namespace autoamp;
using policy::Cpu, policy::CpuPath;
using tool::CpuSample, tool::fitCpu, tool::productOf, tool::whyUnfit;

namespace {

// The times that the model of `cpu` gives, each multiplied by 1 + error or 1 - error in turn.
std::vector<CpuSample> samplesOf(const Cpu &cpu, double error = 0)
{
	std::vector<CpuSample> samples;
	for (const int64_t n : {64, 96, 128, 256, 1024})
		samples.push_back({n, n, n, {}});
	for (const auto &[size, rows] : {std::pair(256, 1), {1024, 1}, {512, 32}, {4096, 1}, {4096, 8}, {4096, 32}})
		samples.push_back({size, rows, size, {}});
	int sign = 1;
	for (CpuSample &sample : samples)
		for (const CpuPath path : {CpuPath::single, CpuPath::converted, CpuPath::kept}) {
			const bool isMeasured = path != CpuPath::kept || sample.n <= 32;
			sign = -sign;
			sample.ns[static_cast<size_t>(path)] =
			    isMeasured ? policy::cpuTime(cpu, productOf(sample), path) * (1 + sign * error) : 0;
		}
	return samples;
}

// A CPU with twice the cache whose bfloat16 is faster than on the built-in one.
Cpu fastCpu()
{
	Cpu cpu;
	cpu.cache = 4 << 20;
	cpu.rates[0] = {40, 150, 0.05, 0.4};
	cpu.rates[1] = {900, 900, 0.08, 0.45};
	cpu.rates[2] = {3'000, 900, 0.02, 0.04};
	cpu.keptLeast = 0.09;
	return cpu;
}

void expectSame(const Cpu &got, const Cpu &wanted, double tolerance)
{
	for (const CpuSample &sample : samplesOf(wanted))
		for (const CpuPath path : {CpuPath::single, CpuPath::converted, CpuPath::kept}) {
			INFO(sample.m << " " << sample.n << " " << sample.k << " path " << static_cast<int>(path));
			CHECK(policy::cpuTime(got, productOf(sample), path) ==
			      Approx(policy::cpuTime(wanted, productOf(sample), path)).epsilon(tolerance));
		}
}

} // namespace

TEST_CASE("times of a known CPU give its constants")
{
	for (const Cpu &cpu : {Cpu(), fastCpu()}) {
		const Cpu got = fitCpu(samplesOf(cpu));
		CHECK(got.cache == cpu.cache);
		for (size_t path = 0; path < 3; ++path) {
			INFO("path " << path);
			CHECK(got.rates[path].call == Approx(cpu.rates[path].call).epsilon(.05));
			CHECK(got.rates[path].flops == Approx(cpu.rates[path].flops).epsilon(.05));
			CHECK(got.rates[path].near == Approx(cpu.rates[path].near).epsilon(.05));
			CHECK(got.rates[path].far == Approx(cpu.rates[path].far).epsilon(.05));
		}
		CHECK(got.keptLeast == Approx(cpu.keptLeast).epsilon(.05));
		expectSame(got, cpu, .02);
		CHECK(whyUnfit(got, samplesOf(cpu)) == "");
		CHECK(got.fork == cpu.fork);
	}
}

TEST_CASE("errors of single times do not spoil the prediction")
{
	const Cpu got = fitCpu(samplesOf(fastCpu(), .1));
	expectSame(got, fastCpu(), .25);
	CHECK(whyUnfit(got, samplesOf(fastCpu(), .1)) == "");
}

TEST_CASE("constants stay positive, and those that predict badly are refused")
{
	auto samples = samplesOf(Cpu());
	for (CpuSample &sample : samples) // as if a call took no time, and a large product as long as a small one
		for (double &ns : sample.ns)
			ns = ns > 0 ? 1000 : 0;
	const Cpu got = fitCpu(samples);
	for (const policy::CpuRate &rate : got.rates)
		CHECK((rate.call > 0 && rate.flops > 0 && std::isfinite(rate.flops) && rate.near > 0 && rate.far > 0));
	CHECK(got.keptLeast > 0);

	samples = samplesOf(Cpu());
	CHECK(whyUnfit(Cpu(), samples) == "");
	samples[3].ns[1] *= 2.1;
	CHECK(whyUnfit(Cpu(), samples) == "the model predicts 0.48 of the measured time of 256x256x256");
	samples[3].ns[1] /= 2.1 * 2.1;
	CHECK(whyUnfit(Cpu(), samples) != "");
	Cpu wrong;
	wrong.rates[2].near = NAN;
	CHECK(whyUnfit(wrong, {}) == "a constant is not a positive number");
	wrong.rates[2].near = 0;
	CHECK(whyUnfit(wrong, {}) == "a constant is not a positive number");
}
