// Device facts that the policy needs. Any thread.
#pragma once

#include "src/policy/decide.h"
#include "src/state/process.h"

namespace autoamp::core {

// Returns false if the driver query failed; the caller must not cache a decision then. Without any driver, sets a
// device that cannot load kernels.
bool deviceAt(const Process &process, int ordinal, policy::Device &device);

} // namespace autoamp::core
