// Formulas: the time of a product is that of its arithmetic plus that of reading and packing its operands, because
// neither OpenBLAS nor oneDNN overlaps the two. Both are divided by the number of threads. tests/unit/policy_cpu.cpp
// has measured times.
#include "src/policy/cpu_model.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

namespace autoamp::policy {

namespace {

double weightOf(const op::Op &op)
{
	return static_cast<double>(std::max(op.m, op.n)) * static_cast<double>(op.k);
}

double multiplications(const op::Op &op)
{
	return static_cast<double>(op.m) * static_cast<double>(op.n) * static_cast<double>(op.k);
}

// From so many multiplications on, OpenBLAS uses several threads (interface/gemm.c). If they still wait actively after
// an earlier product, products of 8 to 25 us are up to twice as fast on two threads, in the median 1.6 times. The gain
// of a quarter leaves thin ones unchanged that are slower in bfloat16 (tests/bench/cpu/shapes.py).
constexpr double leastShared = 1 << 19;

// ns per element if `bytes` are read again and again.
double perElement(const Cpu &cpu, const CpuRate &rate, double bytes)
{
	return rate.far - (rate.far - rate.near) * std::min(1., cpu.cache / bytes);
}

// ns on one thread, without the fixed time of a call.
double workOf(const Cpu &cpu, const op::Op &op, CpuPath path)
{
	const CpuRate &rate = cpu.rates[static_cast<size_t>(path)];
	const CpuRate &conversion = cpu.rates[static_cast<size_t>(CpuPath::converted)];
	const auto m = static_cast<double>(op.m), n = static_cast<double>(op.n), k = static_cast<double>(op.k);
	const double speed = path == CpuPath::single ? cpu.librarySpeed : 1;
	const double arithmetic = 2 * m * n * k / (rate.flops * speed), elements = m * k + k * n + m * n;
	if (path != CpuPath::kept)
		return arithmetic + elements * perElement(cpu, rate, 4 * elements);
	const double weight = weightOf(op), others = elements - weight;
	const double isFar = 1 - std::min(1., cpu.cache / (2 * weight));
	return std::max(arithmetic + weight * perElement(cpu, rate, 2 * weight), weight * cpu.keptLeast * isFar) +
	       others * perElement(cpu, conversion, 4 * others);
}

unsigned threadsFor(const Cpu &cpu, const op::Op &op, CpuPath path, double work)
{
	if (path == CpuPath::single) // the program's library starts threads only if they help
		return work / cpu.threads + cpu.fork < work ? cpu.threads : 1;
	const double parts = multiplications(op) / cpu.perThread;
	return cpu.usesThreads && parts >= 2 ? static_cast<unsigned>(std::min<double>(cpu.threads, parts)) : 1;
}

} // namespace

Cpu builtInCpu(CpuModel model)
{
	Cpu cpu;
	if (model == CpuModel::zen5) {
		cpu.rates[0] = {50, 250, 0.023, 0.41};
		cpu.rates[1] = {400, 500, 0.047, 0.17};
		cpu.rates[2] = {400, 546, 0.0155, 0.041};
		cpu.keptLeast = 0.0565;
		cpu.leastGain = 2'000;
	} else if (model == CpuModel::xeon) {
		cpu.rates[0] = {200, 150, 0.02, 0.60};
		cpu.rates[1] = {7'000, 120, 0.05, 0.60}; // OpenBLAS: 0.45, but BLIS reads few rows faster than both
		cpu.rates[2] = {3'000, 122, 0.03, 0.06};
		cpu.keptLeast = 0.145;
		cpu.avx2Speed = 0.55, cpu.olderSpeed = 0.22;
	}
	return cpu;
}

CpuModel cpuModelOf(unsigned family, bool hasAmx)
{
	constexpr unsigned zen4 = 25, zen5 = 26; // families of Intel's CPUs with bfloat16 are smaller
	return family < zen4 && !hasAmx ? CpuModel::xeon : family == zen5 ? CpuModel::zen5 : CpuModel::zen4;
}

double librarySpeed(const Cpu &cpu, std::string_view about)
{
	// The names are those in OpenBLAS 0.3.29, driver/others/dynamic.c. A library for one kind of CPU has capital
	// letters.
	static constexpr std::string_view avx2[] = {"haswell", "zen"},
	                                  older[] = {"prescott",  "core2",       "penryn",      "dunnington", "atom",
	                                             "nehalem",   "sandybridge", "opteron",     "barcelona",  "bobcat",
	                                             "bulldozer", "piledriver",  "steamroller", "excavator",  "generic"};
	std::string words = " " + std::string(about);
	for (char &letter : words)
		letter = static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
	const auto isOneOf = [&words](const auto &names) {
		return std::any_of(std::begin(names), std::end(names), [&words](std::string_view name) {
			return words.find(" " + std::string(name)) != words.npos;
		});
	};
	return isOneOf(avx2) ? cpu.avx2Speed : isOneOf(older) ? cpu.olderSpeed : 1;
}

double cpuTime(const Cpu &cpu, const op::Op &op, CpuPath path)
{
	const double work = workOf(cpu, op, path), threads = threadsFor(cpu, op, path, work);
	double time = work / threads + (threads > 1 ? cpu.fork : 0);
	if (path == CpuPath::single && cpu.threads > 1 && multiplications(op) >= leastShared)
		time = std::min(time, .75 * work);
	return op.batch * (cpu.rates[static_cast<size_t>(path)].call + time);
}

unsigned cpuThreads(const Cpu &cpu, const op::Op &op, CpuPath path)
{
	return threadsFor(cpu, op, path, workOf(cpu, op, path));
}

bool hasWeight(const op::Op &op)
{
	const int64_t outer = std::max(op.m, op.n), rows = std::min(op.m, op.n);
	constexpr double leastElements = (256 << 10) / sizeof(float);
	return op.batch == 1 && weightOf(op) >= leastElements && outer >= 256 && op.k >= 128 && rows <= 256 &&
	       2 * rows <= outer;
}

} // namespace autoamp::policy
