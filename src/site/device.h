// The facts of a device as the policy needs them. Any thread.
#pragma once

#include "src/policy/decide.h"
#include "src/state/process.h"

namespace autoamp::core {

// False: the driver did not answer this time, so nothing may be decided for good. Without any driver there is a device
// that can load no kernels.
bool deviceAt(const Process &process, int ordinal, policy::Device &device);

} // namespace autoamp::core
