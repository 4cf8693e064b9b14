// The gradient scalers whose updates come from the device, by kernels::Update::scaler. Any thread.
#pragma once

#include "src/trace/write/content.h"

namespace autoamp::core {

// The index of this scaler in the context; 0 if the table is full. The texts are copied.
uint32_t scalerIndex(const trace::GradientScaler &scaler, unsigned long long contextId);

// Null: there is no such scaler.
const trace::GradientScaler *scalerAt(uint32_t index);

} // namespace autoamp::core
