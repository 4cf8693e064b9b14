// Formulas: the time of a GEMM is its launch plus the longer of arithmetic (waves of tiles, for the best tile shape and
// split of k) and memory. The time of a conversion is its launch plus 6 bytes per element. The constants were fitted to
// OpenXLA's published times of 375 shapes on H100 and B200 (mean error 4 % bf16, 17 % TF32), and to single published
// figures elsewhere: the figures next to the constants, in TFLOP/s. tests/unit/roofline.py has the original formulas.
#include "src/policy/cost_model.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <iterator>

namespace autoamp::policy {

namespace {

// clang-format off
// Hopper, scaled by the dense peak of the part relative to the SXM part.
constexpr KernelRate hopperHalf(double part) { return {part * 880 * 0.92, 5.2, 0, .76, .70, .99, 2.1, 175}; } // fitted; 0.92: fp32 result
constexpr KernelRate hopperTf32(double part) { return {part * 446, 5.8, 0, .51, .40, .60, 0.7, 305}; }        // fitted; 417 measured at 8192^3
constexpr KernelRate hopperFp32(double part) { return {part * 53.5, 5.0, 0, .80, .85, .95, 2.0, 40}; }        // 52.1 measured at 8192^3
constexpr KernelRate hopperFast(double part) { return {part * 300, 5.5, 0, .7, .8, .95, 2.0, 150}; }          // estimated: sm_80 kernels
// GeForce and similar GPUs: half, TF32 and fp32 as given, the other constants estimated identically. fast16: 83 % of
// half (measured, sm_86).
constexpr KernelRate gamingHalf(double peak) { return {peak, 4.5, 0, .8, .85, .97, 2.0, 80}; }
constexpr KernelRate gamingTf32(double peak) { return {peak, 4.5, 0, .8, .9, .97, 2.0, 60}; }
constexpr KernelRate gamingFp32(double peak) { return {peak, 4.5, 0, .85, .9, .97, 2.0, 40}; }

// By GpuModel, without `automatic`. The copy rates of the A100, the B200 and GeForce are 85 to 92 % of the peak.
constexpr Gpu gpus[] = {
	{"a100", "a100", 80, 108, 1.75, 40, 3.0, // estimated; 239 half at 4096^3, TF32 7 times SGEMM
	 {{272, 4.5, 0, .65, .75, .95, 2.0, 150}, {137, 4.5, 0, .6, .75, .95, 2.0, 100}, {19.0, 4.5, 0, .85, .9, .97, 2.0, 40},
	  {170, 4.5, 0, .7, .8, .95, 2.0, 100}}},
	{"h100", "h100", 90, 132, 3.0, 50, 3.6, {hopperHalf(1), hopperTf32(1), hopperFp32(1), hopperFast(1)}}, // copy measured
	{"h200", "h200", 90, 132, 4.3, 60, 3.6, {hopperHalf(1), hopperTf32(1), hopperFp32(1), hopperFast(1)}}, // copy measured
	{"b200", "b200", 100, 148, 6.8, 126, 8.0, // fitted; 65.8 fp32 at 8192^3; fast16 estimated
	 {{1769 * 0.92, 4.9, .25, .53, .74, .93, 2.2, 215}, {889, 6.0, .95, .65, .95, .76, 5.0, 85}, {67, 5.0, 0, .8, .85, .95, 2.0, 40},
	  {400, 5.5, 0, .7, .8, .95, 2.0, 150}}},
	{"rtx4090", "rtx 4090", 89, 128, 0.93, 72, 4.0, // 165-168 half
	 {gamingHalf(165), gamingTf32(80), gamingFp32(62), gamingHalf(137)}},
	// Peaks 756, 378 and 51; 1.86 TB/s measured for a cast.
	{"h100pcie", "h100 pcie", 90, 114, 1.86, 50, 3.1, {hopperHalf(.764), hopperTf32(.764), hopperFp32(.762), hopperFast(.764)}},
	{"rtx5090", "rtx 5090", 120, 170, 1.65, 96, 5.0, // 202.9 bf16 at 8192^3, 103.6 TF32 at 4096^3; fp32 as 4090 of its peak
	 {gamingHalf(205), gamingTf32(104), gamingFp32(79), gamingHalf(170)}},
	{"pro6000", "rtx pro 6000", 120, 188, 1.7, 128, 5.0, // Max-Q: 229-240 half, 147-153 TF32, 57 fp32; 1.68-1.77 TB/s for a cast
	 {gamingHalf(240), gamingTf32(153), gamingFp32(58), gamingHalf(199)}},
};

constexpr struct { double m, n; } tiles[] = {
	{128, 256}, {256, 128}, {128, 128}, {64, 256}, {256, 64}, {64, 128}, {128, 64}, {64, 64},
};
// clang-format on

// us, estimated. castLaunch: launch of a conversion kernel. gap: wait of a dependent kernel for it. almostEmpty: a
// kernel that nearly always returns at once, with its wait. settle: two of these kernels (one before the cast chooses
// the scales, one after it verifies them). mend: one more.
constexpr double castLaunch = 2.5, gap = 1.0, almostEmpty = 2.0, settle = 2 * almostEmpty, mend = almostEmpty;
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

// For 0 <= x. std::ceil is a libm call on the x86-64 baseline, and would be most of the model's cost. Beyond 2^52,
// where every double is whole, the result may be off by one, which does not matter for a time.
double roundUp(double x)
{
	constexpr double whole = 1LL << 52;
	double near = (x + whole) - whole;
	return near < x ? near + 1 : near;
}

struct Sizes {
	double m, n, k, batch;
};

// Time of the best tile shape and split of k. Stops searching once the time is at most `enough`.
double arithmeticMicroseconds(const Gpu &gpu, Path path, const Sizes &sizes, double enough)
{
	const auto [m, n, k, batch] = sizes;
	const KernelRate &rate = gpu.rates[static_cast<size_t>(path)];
	const double reduction = microseconds(gpu.bandwidth, 4 * m * n * batch); // partial sums of one split
	// A reciprocal, for speed, and slightly less: rounding must not add a wave to a whole number of waves.
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
		if (arithmetic <= enough)
			break;
	}
	return arithmetic;
}

double gemmMicroseconds(const Gpu &gpu, Path path, double m, double n, double k, double batch)
{
	const KernelRate &rate = gpu.rates[static_cast<size_t>(path)];
	const double operandBytes = path == Path::half ? 2 : 4;
	const double memory = microseconds(gpu.bandwidth, batch * (operandBytes * (m * k + k * n) + 4 * m * n));
	const double arithmetic = arithmeticMicroseconds(gpu, path, {m, n, k, batch}, memory);
	double time = rate.launch + std::max(arithmetic, memory);
	// Skinny products run on special kernels, bound by memory.
	return std::min(m, n) <= 16 ? std::min(time, gemvLaunch + 1.1 * memory) : time;
}

// An autoamp kernel that moves this number of bytes.
double passMicroseconds(const Gpu &gpu, double bytes)
{
	bool isCached = bytes < 0.5e6 * gpu.l2Megabytes;
	return castLaunch + microseconds(isCached ? gpu.l2Bandwidth : gpu.bandwidth, bytes);
}

// Part of a kept operand that a call compares with its copy. The lines of the sample are scattered: half the bandwidth.
constexpr double sampledPart = 1. / 64, scatteredRate = 0.5;

// The check of a kept operand. Without the kernels that settle scales, `checked` needs one more.
double checkMicroseconds(const Gpu &gpu, double elements, Weights weights, Scaling scaling)
{
	const double launch = weights == Weights::checked && scaling == Scaling::off ? almostEmpty : 0;
	return launch + microseconds(scatteredRate * gpu.bandwidth, 6 * sampledPart * elements);
}

double settleMicroseconds(Scaling scaling)
{
	return scaling == Scaling::off ? 0 : settle + (scaling == Scaling::strict ? mend : 0);
}

double sizeOf(const op::Tensor &tensor)
{
	double size = 1;
	for (int i = 0; i < tensor.rank; i++)
		size *= static_cast<double>(tensor.dims[i]);
	return size;
}

// Relative to the rate of a GEMM with the same implicit shape; estimated. The 16-bit kernels for images of 3 channels
// were measured (docs/bench, 7x7 of ResNet-50).
double convolutionEfficiency(const op::Convolution &convolution, Path path)
{
	constexpr int64_t fewest = 8; // channels that a 16-bit vector of the kernels has
	if (path == Path::half && std::min(convolution.x.dims[1], convolution.y.dims[1]) < fewest)
		return 0.02;
	return path == Path::fp32 ? 0.8 : 0.6;
}

double convolutionMicroseconds(const Gpu &gpu, const op::Convolution &convolution, Path path, double resultBytes,
                               double efficiency)
{
	const double operandBytes = path == Path::half ? 2 : 4;
	const KernelRate &rate = gpu.rates[static_cast<size_t>(path)];
	op::Op product;
	op::setProduct(product, convolution);
	const double memory =
	    microseconds(gpu.bandwidth, operandBytes * (sizeOf(convolution.first()) + sizeOf(convolution.second())) +
	                                    resultBytes * sizeOf(convolution.result()));
	const Sizes sizes = {static_cast<double>(product.m), static_cast<double>(product.n), static_cast<double>(product.k),
	                     static_cast<double>(product.batch)};
	const double arithmetic = arithmeticMicroseconds(gpu, path, sizes, memory * efficiency);
	return rate.launch + std::max(arithmetic / efficiency, memory);
}

} // namespace

const Gpu &gpuConstants(GpuModel model, const char *deviceName, int computeCapability)
{
	if (model != GpuModel::automatic)
		return row(model);
	const Gpu *named = nullptr;
	for (const Gpu &gpu : gpus) { // the last wins: "h100 pcie" comes after "h100"
		if (deviceName && contains(deviceName, gpu.marketed))
			named = &gpu;
	}
	if (named)
		return *named;
	if (computeCapability <= 0)
		return row(GpuModel::h100);
	// Gaming GPUs of a generation have the same ratios.
	auto distance = [=](auto &gpu) { return std::abs(gpu.computeCapability - computeCapability); };
	return *std::min_element(std::begin(gpus), std::end(gpus),
	                         [&](auto &x, auto &y) { return distance(x) < distance(y); });
}

double gemmTime(const Gpu &gpu, Path path, double m, double n, double k, double batch)
{
	return 1e3 * gemmMicroseconds(gpu, path, m, n, k, batch);
}

double castTime(const Gpu &gpu, double elements)
{
	return 1e3 * passMicroseconds(gpu, 6 * elements);
}

double convolutionTime(const Gpu &gpu, const op::Convolution &convolution, Path path)
{
	return 1e3 * convolutionMicroseconds(gpu, convolution, path, 4, convolutionEfficiency(convolution, path));
}

double keptElements(const op::Op &op)
{
	const op::Convolution *const convolution = op::isConvolution(op.kind) ? op::convolutionAt(op.geometry) : nullptr;
	const auto m = static_cast<double>(op.m), n = static_cast<double>(op.n), k = static_cast<double>(op.k);
	const auto ifLarge = [](double elements) { return elements * sizeof(float) >= 0x1p20 ? elements : 0; };
	if (convolution)
		return convolution->direction == op::Direction::backwardFilter ? 0 : ifLarge(sizeOf(convolution->w));
	const double a = ifLarge(m * k), b = ifLarge(k * n);
	if (a == 0 || b == 0)
		return a + b;
	const auto inequality = [k](double side) { return std::max(side, k) / std::min(side, k); };
	return inequality(m) <= inequality(n) ? a : b;
}

double estimate(const Gpu &gpu, const op::Op &op, Path path, Scaling scaling, op::Form form, Weights weights)
{
	const op::Convolution *const convolution = op::isConvolution(op.kind) ? op::convolutionAt(op.geometry) : nullptr;
	const double kept = weights == Weights::off ? 0 : keptElements(op);
	const double check = kept > 0 ? checkMicroseconds(gpu, kept, weights, scaling) : 0;
	if (convolution) {
		if (path != Path::half)
			return convolutionTime(gpu, *convolution, path);
		const double elements = sizeOf(convolution->first()) + sizeOf(convolution->second()) - kept;
		const bool isWide = form == op::Form::wide, isBetaZero = op.flags & op::flagBetaZero;
		const double resultBytes = isWide ? 4 : 2, added = isBetaZero ? 0 : 4;
		const double home =
		    isWide && op::isWrittenInPlace(*convolution, isBetaZero)
		        ? 0
		        : gap + passMicroseconds(gpu, (resultBytes + 4 + added) * sizeOf(convolution->result()));
		return castTime(gpu, elements) +
		       1e3 * (convolutionMicroseconds(gpu, op::padded(*convolution), path, resultBytes,
		                                      convolutionEfficiency(*convolution, path)) +
		              home + gap + check + settleMicroseconds(scaling));
	}
	auto m = static_cast<double>(op.m), n = static_cast<double>(op.n), k = static_cast<double>(op.k);
	const double batch = op.batch, product = gemmTime(gpu, path, m, n, k, batch);
	if (path != Path::half)
		return product;
	// With a batch stride of 0, one matrix is converted and multiplied with all others.
	const bool areArrays = op.flags & op::flagArrays;
	const double elements =
	    (op.stridea || areArrays ? batch : 1) * m * k + (op.strideb || areArrays ? batch : 1) * k * n - kept;
	double more = 0; // bytes: the results, which are read from scratch memory and added to C; the sum of an operand
	if (areArrays)
		more += (op.flags & op::flagBetaZero ? 8 : 12) * m * n * batch;
	if (op::epilogueEffects(op) & op::sumsOperand)
		more += 4 * (op.epilogue == static_cast<uint8_t>(op::Epilogue::bgrada) ? m : n) * k * batch;
	if (op::limitsOf(op.kind) & op::copiesStates)
		more += 1;
	if (more > 0)
		more = castLaunch + gap + microseconds(gpu.bandwidth, more);
	if (scaling == Scaling::strict) // settle reads the operands again
		more += passMicroseconds(gpu, 4 * elements) - castLaunch;
	return castTime(gpu, elements) + product + 1e3 * (gap + check + more + settleMicroseconds(scaling));
}

double launchTime(const Gpu &gpu, Scaling scaling)
{
	const double launch = gpu.rates[static_cast<size_t>(Path::half)].launch;
	return 1e3 * (castLaunch + gap + settleMicroseconds(scaling) + std::min(launch, gemvLaunch));
}

} // namespace autoamp::policy
