// The gradient scalers whose updates come from the device, by kernels::Update::scaler. Any thread.
#pragma once

#include "src/trace/write/content.h"

namespace autoamp::core {

// The index of this scaler in the context; 0 if the table is full. The texts are copied. Its factors and interval
// replace those that it had before.
uint32_t scalerIndex(const trace::GradientScaler &scaler, unsigned long long contextId);

// Without a framework if there is no such scaler.
trace::GradientScaler scalerAt(uint32_t index);

} // namespace autoamp::core
