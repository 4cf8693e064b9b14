// Formulas: the time of a product is that of its arithmetic plus that of reading and packing its operands, because
// neither OpenBLAS nor oneDNN overlaps the two. Both are divided by the number of threads. tests/unit/policy_cpu.cpp
// has measured times.
#include "src/policy/cpu_model.h"

#include <algorithm>
#include <cmath>

namespace autoamp::policy {

namespace {

double weightOf(const op::Op &op)
{
	return static_cast<double>(std::max(op.m, op.n)) * static_cast<double>(op.k);
}

// ns per element if `bytes` are read again and again.
double perElement(const Cpu &cpu, const CpuRate &rate, double bytes)
{
	return rate.far - (rate.far - rate.near) * std::min(1., cpu.cache / bytes);
}

} // namespace

Cpu builtInCpu(unsigned family)
{
	constexpr unsigned zen5 = 26;
	Cpu cpu;
	if (family == zen5) {
		cpu.rates[0] = {50, 250, 0.023, 0.41};
		cpu.rates[1] = {400, 500, 0.047, 0.17};
		cpu.rates[2] = {400, 546, 0.0155, 0.041};
		cpu.keptLeast = 0.0565;
		cpu.leastGain = 2'000;
	}
	return cpu;
}

double cpuTime(const Cpu &cpu, const op::Op &op, CpuPath path)
{
	const CpuRate &rate = cpu.rates[static_cast<size_t>(path)];
	const CpuRate &conversion = cpu.rates[static_cast<size_t>(CpuPath::converted)];
	const auto m = static_cast<double>(op.m), n = static_cast<double>(op.n), k = static_cast<double>(op.k);
	const double arithmetic = 2 * m * n * k / rate.flops, elements = m * k + k * n + m * n;
	double work = 0;
	if (path == CpuPath::kept) {
		const double weight = weightOf(op), others = elements - weight;
		const double isFar = 1 - std::min(1., cpu.cache / (2 * weight));
		work = std::max(arithmetic + weight * perElement(cpu, rate, 2 * weight), weight * cpu.keptLeast * isFar) +
		       others * perElement(cpu, conversion, 4 * others);
	} else {
		work = arithmetic + elements * perElement(cpu, rate, 4 * elements);
	}
	if (cpu.threads > 1) {
		const double shared = work / cpu.threads + cpu.fork;
		// The program's library starts threads only if they help.
		if (path == CpuPath::single)
			work = std::min(work, shared);
		else if (const auto threads = std::min<double>(cpu.threads, std::floor(m * n * k / cpu.perThread));
		         cpu.usesThreads && threads > 1)
			work = work / threads + cpu.fork;
	}
	return op.batch * (rate.call + work);
}

bool hasWeight(const op::Op &op)
{
	constexpr double leastElements = (256 << 10) / sizeof(float);
	return op.batch == 1 && weightOf(op) >= leastElements;
}

} // namespace autoamp::policy
