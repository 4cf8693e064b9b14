// The formulas: a GEMM costs its launch and the longer of arithmetic (waves of tiles, best over tile shape and split of
// k) and memory; a conversion its launch and 6 bytes an element. The constants were fitted to OpenXLA's published times
// of 375 shapes on H100 and B200 (mean error 4 % bf16, 17 % TF32) and to single published anchors elsewhere.
#include "src/policy/cost_model.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <iterator>

namespace autoamp::policy {

namespace {

// clang-format off
constexpr KernelRate hopperHalf = {880 * 0.92, 5.2, 0, .76, .70, .99, 2.1, 175}; // fitted; 0.92: fp32 result
constexpr KernelRate hopperTf32 = {446, 5.8, 0, .51, .40, .60, 0.7, 305};        // fitted; 417 measured at 8192^3
constexpr KernelRate hopperFp32 = {53.5, 5.0, 0, .80, .85, .95, 2.0, 40};        // 52.1 measured at 8192^3

// By GpuModel, without `automatic`.
constexpr Gpu gpus[] = {
	{"a100", "a100", 108, 1.75, 40, 3.0, // estimated; 239 half at 4096^3, TF32 7 times SGEMM
	 {272, 4.5, 0, .65, .75, .95, 2.0, 150}, {137, 4.5, 0, .6, .75, .95, 2.0, 100}, {19.0, 4.5, 0, .85, .9, .97, 2.0, 40}},
	{"h100", "h100", 132, 3.0, 50, 3.6, hopperHalf, hopperTf32, hopperFp32},
	{"h200", "h200", 132, 4.3, 60, 3.6, hopperHalf, hopperTf32, hopperFp32},
	{"b200", "b200", 148, 6.8, 126, 8.0, // fitted; 65.8 fp32 at 8192^3
	 {1769 * 0.92, 4.9, .25, .53, .74, .93, 2.2, 215}, {889, 6.0, .95, .65, .95, .76, 5.0, 85}, {67, 5.0, 0, .8, .85, .95, 2.0, 40}},
	{"rtx4090", "rtx 4090", 128, 0.93, 72, 4.0, // estimated; 165-168 half
	 {165, 4.5, 0, .8, .85, .97, 2.0, 80}, {80, 4.5, 0, .8, .9, .97, 2.0, 60}, {62, 4.5, 0, .85, .9, .97, 2.0, 40}},
};

// Whose constants stand for GPUs that the model has none of: gaming parts of every generation share the ratios of one.
constexpr struct { int computeCapability; GpuModel model; } generations[] = {
	{80, GpuModel::a100}, {89, GpuModel::rtx4090}, {90, GpuModel::h100}, {100, GpuModel::b200}, {120, GpuModel::rtx4090},
};

constexpr struct { double m, n; } tiles[] = {
	{128, 256}, {256, 128}, {128, 128}, {64, 256}, {256, 64}, {64, 128}, {128, 64}, {64, 64},
};
// clang-format on

// us, estimated: start of a conversion kernel, wait of a dependent kernel for it, and an almost empty kernel with its
// wait (the one before the cast chooses the scales, the one after it verifies them).
constexpr double castLaunch = 2.5, gap = 1.0, smallKernel = 2.0;
constexpr double gemvLaunch = 3.5;

const Gpu &row(GpuModel model)
{
	return gpus[static_cast<size_t>(model) - 1];
}

bool contains(const char *text, const char *lowercase)
{
	for (; *text; ++text) {
		size_t i = 0;
		while (lowercase[i] && std::tolower(static_cast<unsigned char>(text[i])) == lowercase[i])
			++i;
		if (!lowercase[i])
			return true;
	}
	return false;
}

double microseconds(double terabytesPerSecond, double bytes)
{
	return bytes / (terabytesPerSecond * 1e6);
}

// std::ceil of 0 <= x is a call into libm on the x86-64 baseline, and it is most of the model's cost. Beyond 2^52,
// where every double is whole, this may be off by one: nothing to a time.
double roundUp(double x)
{
	constexpr double whole = 1LL << 52;
	double near = (x + whole) - whole;
	return near < x ? near + 1 : near;
}

double gemmMicroseconds(const Gpu &gpu, Path path, double m, double n, double k, double batch)
{
	const KernelRate &rate = path == Path::half ? gpu.half : path == Path::tf32 ? gpu.tf32 : gpu.fp32;
	const double operandBytes = path == Path::half ? 2 : 4;
	const double memory = microseconds(gpu.bandwidth, batch * (operandBytes * (m * k + k * n) + 4 * m * n));
	const double reduction = microseconds(gpu.bandwidth, 4 * m * n * batch); // of one split's partial sums
	// A reciprocal, for speed, and a hair less: a whole number of waves must not become one more by rounding.
	const double wavesPerTile = (1 - 1e-12) / gpu.processors;
	const double perArea = 2 * gpu.processors / (rate.peak * 1e6); // us for a step of k
	double arithmetic = HUGE_VAL;
	for (auto &tile : tiles) {
		double area = tile.m * tile.n;
		double efficiency = area >= 32768 ? 1 : area >= 16384 ? rate.large : area >= 8192 ? rate.medium : rate.small;
		double count = roundUp(m / tile.m) * roundUp(n / tile.n) * batch;
		double perStep = perArea * area / efficiency;
		for (double split = 1, part = k; split == 1 || (split <= 8 && part >= 256); split *= 2, part *= .5) {
			double waves = roundUp(count * split * wavesPerTile);
			double summing = split > 1 ? rate.split + reduction * split : 0;
			arithmetic = std::min(arithmetic, waves * (perStep * (part + rate.ramp) + rate.wave) + summing);
		}
		if (arithmetic <= memory)
			break;
	}
	double time = rate.launch + std::max(arithmetic, memory);
	// Skinny products run on kernels of their own, bound by memory.
	return std::min(m, n) <= 16 ? std::min(time, gemvLaunch + 1.1 * memory) : time;
}

double castMicroseconds(const Gpu &gpu, double elements)
{
	double bytes = 6 * elements;
	bool isCached = bytes < 0.5e6 * gpu.l2Megabytes;
	return castLaunch + microseconds(isCached ? gpu.l2Bandwidth : gpu.bandwidth, bytes);
}

} // namespace

const Gpu &gpuConstants(GpuModel model, const char *deviceName, int computeCapability)
{
	if (model != GpuModel::automatic)
		return row(model);
	for (const Gpu &gpu : gpus) {
		if (deviceName && contains(deviceName, gpu.marketed))
			return gpu;
	}
	if (computeCapability <= 0)
		return row(GpuModel::h100);
	auto distance = [=](auto &generation) { return std::abs(generation.computeCapability - computeCapability); };
	auto nearest = std::min_element(std::begin(generations), std::end(generations),
	                                [&](auto &x, auto &y) { return distance(x) < distance(y); });
	return row(nearest->model);
}

double gemmTime(const Gpu &gpu, Path path, double m, double n, double k, double batch)
{
	return 1e3 * gemmMicroseconds(gpu, path, m, n, k, batch);
}

double castTime(const Gpu &gpu, double elements)
{
	return 1e3 * castMicroseconds(gpu, elements);
}

Cost estimate(const Gpu &gpu, const op::Op &op, Path asked, bool scaled)
{
	auto m = static_cast<double>(op.m), n = static_cast<double>(op.n), k = static_cast<double>(op.k);
	double batch = op.batch;
	double settle = scaled ? 2 * smallKernel : 0;
	// A batch stride of 0 converts one matrix and multiplies it with all others.
	double elements = (op.stridea ? batch : 1) * m * k + (op.strideb ? batch : 1) * k * n;
	Cost cost;
	cost.asked = gemmTime(gpu, asked, m, n, k, batch);
	cost.lowered = castTime(gpu, elements) + gemmTime(gpu, Path::half, m, n, k, batch) + 1e3 * (gap + settle);
	cost.launches = 1e3 * (castLaunch + gap + settle + std::min(gpu.half.launch, gemvLaunch));
	return cost;
}

} // namespace autoamp::policy
