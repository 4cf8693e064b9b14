// Constants of the CPU cost model from measured times. Values; main thread.
#pragma once

#include "src/policy/cpu_model.h"

#include <cstdint>
#include <span>
#include <string>

namespace autoamp::tool {

// Times of one product, on one thread.
struct CpuSample {
	int64_t m, n, k;
	double ns[3]; // by policy::CpuPath; 0: not measured
};

op::Op productOf(const CpuSample &sample);

// The constants that predict the samples with the least sum of squared relative errors. Those of threads are the
// defaults, because the samples are of one thread.
policy::Cpu fitCpu(std::span<const CpuSample> samples);

// Why the constants do not describe the samples: a constant is not usable, or a prediction is wrong by more than a
// factor of 2. Empty if they do.
std::string whyUnfit(const policy::Cpu &cpu, std::span<const CpuSample> samples);

} // namespace autoamp::tool
