// With a fixed size of the cache, the time of a product is a sum of four constants with known factors: per call, per
// FLOP, and per element from the cache and from memory. So each path is a linear least-squares problem; every equation
// is divided by the measured time, which makes errors relative. The size of the cache, and the rows up to which memory
// limits products with a kept weight, are those among a few values that give the smallest errors.
#include "tools/autoamp/cpu_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <vector>

namespace autoamp::tool {

using policy::Cpu, policy::CpuPath, policy::CpuRate;

namespace {

constexpr size_t unknowns = 4; // ns per call, per FLOP, per element that is near, per element that is far
using Vector = std::array<double, unknowns>;

struct Equation {
	Vector factors;
	double sum;
};

// All constants are positive: a smaller one would have no meaning, and the file of constants would be refused.
constexpr Vector least = {1, 1e-5, 1e-4, 1e-4};

// The solution in the least-squares sense that is nowhere below `least`: coordinate descent, which converges because
// the problem is convex.
Vector solve(const std::vector<Equation> &equations)
{
	Vector result = least, scale;
	std::array<Vector, unknowns> normal = {};
	Vector right = {};
	for (const auto &[factors, sum] : equations)
		for (size_t i = 0; i < unknowns; ++i) {
			right[i] += factors[i] * sum;
			for (size_t j = 0; j < unknowns; ++j)
				normal[i][j] += factors[i] * factors[j];
		}
	for (size_t i = 0; i < unknowns; ++i)
		scale[i] = normal[i][i] > 0 ? 1 / normal[i][i] : 0;
	constexpr int rounds = 20'000; // some milliseconds
	for (int round = 0; round < rounds; ++round)
		for (size_t i = 0; i < unknowns; ++i) {
			double rest = right[i];
			for (size_t j = 0; j < unknowns; ++j)
				rest -= normal[i][j] * result[j];
			result[i] = std::max(least[i], result[i] + rest * scale[i]);
		}
	return result;
}

CpuRate rateOf(const Vector &solution)
{
	return {solution[0], 1 / solution[1], solution[2], solution[3]};
}

double timeOf(const CpuSample &sample, CpuPath path)
{
	return sample.ns[static_cast<size_t>(path)];
}

// Divided by the measured time. The factors come from the model itself: its time is linear in each constant. `cpu` has
// the cache, and the constants of the other paths.
Equation equationOf(Cpu cpu, const CpuSample &sample, CpuPath path)
{
	CpuRate &rate = cpu.rates[static_cast<size_t>(path)];
	const auto time = [&](const CpuRate &constants) {
		rate = constants;
		return policy::cpuTime(cpu, productOf(sample), path);
	};
	cpu.keptLeast = 0;
	const CpuRate nothing = {0, INFINITY, 0, 0};
	const double others = path == CpuPath::kept ? time(nothing) : 0; // operands that are converted
	const double measured = timeOf(sample, path);
	const Vector factors = {1 / measured, (time({0, 1, 0, 0}) - others) / measured,
	                        (time({0, INFINITY, 1, 0}) - others) / measured,
	                        (time({0, INFINITY, 0, 1}) - others) / measured};
	return {factors, 1 - others / measured};
}

// With at most `mostRows` rows, the time to read the kept weight from memory is taken as more than that of the
// arithmetic and of the accesses to caches.
bool isBoundByMemory(const Cpu &cpu, const CpuSample &sample, int64_t mostRows)
{
	const double bytes = 2. * static_cast<double>(std::max(sample.m, sample.n)) * static_cast<double>(sample.k);
	return std::min(sample.m, sample.n) <= mostRows && bytes > cpu.cache;
}

void fitPath(Cpu &cpu, std::span<const CpuSample> samples, CpuPath path, int64_t mostRows = 0)
{
	std::vector<Equation> equations;
	for (const CpuSample &sample : samples)
		if (timeOf(sample, path) > 0 && (path != CpuPath::kept || !isBoundByMemory(cpu, sample, mostRows)))
			equations.push_back(equationOf(cpu, sample, path));
	cpu.rates[static_cast<size_t>(path)] = rateOf(solve(equations));
}

// The mean of those products that are bound by memory.
void fitKeptLeast(Cpu &cpu, std::span<const CpuSample> samples, int64_t mostRows)
{
	double sum = 0;
	int count = 0;
	for (const CpuSample &sample : samples) {
		if (timeOf(sample, CpuPath::kept) <= 0 || !isBoundByMemory(cpu, sample, mostRows))
			continue;
		Cpu none = cpu, unit = cpu;
		none.rates[2].flops = unit.rates[2].flops = INFINITY;
		none.rates[2].near = none.rates[2].far = unit.rates[2].near = unit.rates[2].far = 0;
		none.keptLeast = 0, unit.keptLeast = 1;
		const double rest = policy::cpuTime(none, productOf(sample), CpuPath::kept);
		const double factor = policy::cpuTime(unit, productOf(sample), CpuPath::kept) - rest;
		sum += (timeOf(sample, CpuPath::kept) - rest) / factor;
		++count;
	}
	constexpr double smallest = 1e-4;
	cpu.keptLeast = count > 0 ? std::max(smallest, sum / count) : Cpu().keptLeast;
}

// Calls visit(ratio) with predicted / measured of each time.
template <class Visit>
void eachRatio(const Cpu &cpu, std::span<const CpuSample> samples, Visit visit)
{
	for (const CpuSample &sample : samples)
		for (const CpuPath path : {CpuPath::single, CpuPath::converted, CpuPath::kept})
			if (const double ns = timeOf(sample, path); ns > 0)
				visit(sample, policy::cpuTime(cpu, productOf(sample), path) / ns);
}

} // namespace

op::Op productOf(const CpuSample &sample)
{
	op::Op op;
	op.library = op::Library::blas, op.device = op::cpuDevice, op.kind = op::Kind::mm;
	op.a = op.b = op.out = op.asked = op::Dtype::float32;
	op.m = sample.m, op.n = sample.n, op.k = sample.k;
	op.lda = op.ldc = op.ldd = sample.m, op.ldb = sample.k;
	return op;
}

policy::Cpu fitCpu(std::span<const CpuSample> samples)
{
	Cpu best;
	double leastError = INFINITY;
	for (double cache = 512 << 10; cache <= 32 << 20; cache *= 2) {
		Cpu cpu;
		cpu.cache = cache;
		fitPath(cpu, samples, CpuPath::single);
		fitPath(cpu, samples, CpuPath::converted);
		for (const int64_t mostRows : {1, 8}) { // more with faster arithmetic
			fitPath(cpu, samples, CpuPath::kept, mostRows);
			fitKeptLeast(cpu, samples, mostRows);
			double error = 0;
			eachRatio(cpu, samples, [&error](const CpuSample &, double ratio) { error += (ratio - 1) * (ratio - 1); });
			if (error < leastError)
				best = cpu, leastError = error;
		}
	}
	best.leastGain = 2'000;
	return best;
}

std::string whyUnfit(const policy::Cpu &cpu, std::span<const CpuSample> samples)
{
	for (const CpuRate &rate : cpu.rates)
		for (const double constant : {rate.call, rate.flops, rate.near, rate.far, cpu.cache, cpu.keptLeast})
			if (!std::isfinite(constant) || constant <= 0)
				return "a constant is not a positive number";
	std::string why;
	eachRatio(cpu, samples, [&why](const CpuSample &sample, double ratio) {
		if (!(ratio <= 2 && ratio >= .5) && why.empty())
			why = fmt::format("the model predicts {:.2f} of the measured time of {}x{}x{}", ratio, sample.m, sample.n,
			                  sample.k);
	});
	return why;
}

} // namespace autoamp::tool
