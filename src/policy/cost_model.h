// What a product costs on each path: constants of a GPU and closed formulas. No clock, no state.
// Any thread. The same call gives the same answer in every process: same program, same bits.
#pragma once

#include "src/op/op.h"
#include "src/op/shadow.h"
#include "src/policy/options.h"

namespace autoamp::policy {

// One family of GEMM kernels on one GPU.
struct KernelRate {
	double peak;                 // TFLOP/s that the largest products approach
	double launch;               // us that every call costs
	double wave;                 // us that every wave of tiles costs
	double small, medium, large; // efficiency of 64x64, 64x128 and 128x128 tiles; larger ones: 1
	double split;                // us that a split of k costs
	double ramp;                 // k lost to a tile's start
};

// half: 16-bit operands, fp32 result. The others read fp32 operands; fast16 rounds them to 16 bits on its way.
enum class Path : uint8_t { half, tf32, fp32, fast16 };

struct Gpu {
	const char *name;                                       // as in AUTOAMP_GPU_MODEL
	const char *marketed;                                   // part of the driver's name for it
	int computeCapability;                                  // 80, 89, 90, ...
	double processors, bandwidth, l2Megabytes, l2Bandwidth; // TB/s reached by a copy
	KernelRate rates[4];                                    // by Path
};

// The model's constants; with `automatic` those of the device: by its name, else by the nearest compute capability
// (75, 80, 90, ...; 0: no device, h100).
const Gpu &gpuConstants(GpuModel model, const char *deviceName, int computeCapability);

// All times in ns. Sizes at least 1.
double gemmTime(const Gpu &gpu, Path path, double m, double n, double k, double batch);
double castTime(const Gpu &gpu, double elements); // fp32 -> 16-bit, operands in one launch
// A convolution's kernel alone, by its implicit product. Nothing is counted for what the vendor may have to transpose.
double convolutionTime(const Gpu &gpu, const op::Convolution &convolution, Path path);

// A whole call of fp32 data. Path::half includes the conversion and, where `scaled`, the settling of the scales; of a
// convolution, in that form, taking its result home.
double estimate(const Gpu &gpu, const op::Op &op, Path path, bool scaled, op::Form form = op::Form::wide);
// The part of it on Path::half that no device, however fast, would save.
double launchTime(const Gpu &gpu, bool scaled);

} // namespace autoamp::policy
