// Lets the launch functions of the CUDA runtime lead to the core, while kernels are traced.
#pragma once

namespace autoamp::core {

// Called once, when the process has started.
void watchLaunchFunctions();

} // namespace autoamp::core
