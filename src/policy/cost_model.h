// Cost model: estimates the time of a product on each path from constants of a GPU and closed formulas. It uses no
// clock and no state. Any thread. The same call gives the same estimate in every process, bit for bit.
#pragma once

#include "src/config/options.h"
#include "src/op/op.h"
#include "src/op/shadow.h"

namespace autoamp::policy {

// One family of GEMM kernels on one GPU.
struct KernelRate {
	double peak;                 // TFLOP/s that the largest products approach
	double launch;               // us per call
	double wave;                 // us per wave of tiles
	double small, medium, large; // efficiency of 64x64, 64x128 and 128x128 tiles; larger ones: 1
	double split;                // us per split of k
	double ramp;                 // start of a tile, in steps of k
};

// half: 16-bit operands, fp32 result. The others read fp32 operands; fast16 rounds them to 16 bits in the kernel.
enum class Path : uint8_t { half, tf32, fp32, fast16 };

struct Gpu {
	const char *name;                                       // as in AUTOAMP_GPU_MODEL
	const char *marketed;                                   // part of the driver's name for it
	int computeCapability;                                  // 80, 89, 90, ...
	double processors, bandwidth, l2Megabytes, l2Bandwidth; // TB/s reached by a copy
	KernelRate rates[4];                                    // by Path
};

// The constants of `model`. For `automatic`, the constants of the device, selected by its name or else by the nearest
// compute capability (75, 80, 90, ...). Capability 0 means no device and selects h100.
const Gpu &gpuConstants(GpuModel model, const char *deviceName, int computeCapability);

// All times in ns. Sizes at least 1.
double gemmTime(const Gpu &gpu, Path path, double m, double n, double k, double batch);
double castTime(const Gpu &gpu, double elements); // fp32 -> 16-bit, operands in one launch
// The kernel of a convolution alone, estimated by its implicit product. Does not include transpositions by the vendor
// library.
double convolutionTime(const Gpu &gpu, const op::Convolution &convolution, Path path);

// A whole call on fp32 data. Path::half includes the conversion and, with float16 scaling, the settling of the scales;
// for a convolution also the copy of its result to the application's layout, as `form` requires.
// `scaling` is off for other types than float16. A rounding of the result (AUTOAMP_ROUND_OUTPUT) is not included: it
// must not change the choice of a strategy, because it shows the effect of autocast.
// `weights`: an operand with keptElements() is kept in this mode, and compared by sample instead of converted.
double estimate(const Gpu &gpu, const op::Op &op, Path path, Scaling scaling, op::Form form = op::Form::wide,
                Weights weights = Weights::off);
// Elements of the operand that the estimate assumes to be kept: the filter of a convolution, or the operand of a
// product with at least 1 MiB of fp32, and of two such operands the one with the more equal sides. 0: no operand is
// that large.
double keptElements(const op::Op &op);
// The part of that time on Path::half that is independent of the speed of the device.
double launchTime(const Gpu &gpu, Scaling scaling);

} // namespace autoamp::policy
