// The CPU of this machine as the cost model needs it. Main thread.
#pragma once

#include "src/config/options.h"
#include "src/policy/cpu_model.h"

#include <string>

namespace autoamp::tool {

// Where `autoamp doctor --calibrate` stores its constants. AUTOAMP_DIR must be known.
std::string calibrationPath(const policy::Options &options);

// The built-in constants for this CPU.
policy::Cpu builtInCpu();

struct KnownCpu {
	policy::Cpu cpu; // one thread
	bool isCalibrated = false;
	std::string blas;    // with which the constants were measured
	std::string problem; // why the file of a calibration is not used; empty: it is used, or there is none
};

// With the constants of `autoamp doctor --calibrate` in AUTOAMP_DIR, or the default ones.
KnownCpu thisCpu(const policy::Options &options);

} // namespace autoamp::tool
