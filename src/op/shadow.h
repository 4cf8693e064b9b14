// How a convolution is run in 16 bits: its shadow, of packed channels-last tensors whose channels are padded to 8, as a
// graph of cuDNN. Pure functions of the geometry; any thread.
#pragma once

#include "src/op/convolution.h"
#include "src/op/graph.h"

namespace autoamp::op {

// wide: convolution -> times a scalar on the device -> fp32. narrow: a 16-bit result, which somebody widens.
enum class Form : uint8_t { none, wide, narrow };

// The form of a tensor-core engine for it, of the vendor's real library (docs/adr on shadow graphs; a test asks that).
Form formOf(const Convolution &convolution, Dtype precision, int computeCapability);

// The geometry that the shadow computes: channels of one group padded to 8. Strides are not its own.
Convolution padded(const Convolution &convolution);

// May the engine write the result itself: packed channels-last, nothing padded, nothing added?
bool isWrittenInPlace(const Convolution &convolution, bool isBetaZero);

enum ShadowUid : int64_t { uidFirst = 1, uidSecond, uidVirtual, uidScale, uidResult };
Graph graphOf(const Convolution &convolution, Form form, Dtype precision);

} // namespace autoamp::op
