// Device facts that the policy needs. Any thread.
#pragma once

#include "src/policy/decide.h"
#include "src/state/process.h"

namespace autoamp::core {

// Returns false if the driver query failed; the caller must not cache a decision then. Without any driver, sets a
// device that cannot load kernels.
bool deviceAt(const Process &process, int ordinal, policy::Device &device);

// The CPU, for a program that calls a BLAS by `original`, a function of its library.
policy::Device cpuDevice(const Process &process, const void *original);

} // namespace autoamp::core
