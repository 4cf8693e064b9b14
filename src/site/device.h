// Device facts that the policy needs. Any thread.
#pragma once

#include "src/policy/decide.h"
#include "src/state/process.h"

namespace autoamp::core {

// Returns false if the driver query failed; the caller must not cache a decision then. Without any driver, sets a
// device that cannot load kernels.
bool deviceAt(const Process &process, int ordinal, policy::Device &device);

// The constants of this CPU: those that `autoamp doctor --calibrate` has stored in the state directory, or built-in
// ones.
policy::Cpu cpuConstants(const policy::Options &options);
// The CPU with these constants, as a device of the policy.
policy::Device deviceOf(const policy::Cpu &cpu);

} // namespace autoamp::core
