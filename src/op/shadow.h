// How a convolution is run in 16 bits: its shadow, of packed channels-last tensors whose channels are padded to 8, as a
// graph of cuDNN. Pure functions of the geometry; any thread.
#pragma once

#include "src/op/convolution.h"
#include "src/op/graph.h"

namespace autoamp::op {

// wide: convolution -> times a scalar on the device -> fp32. narrow: a 16-bit result, which somebody widens.
enum class Form : uint8_t { none, wide, narrow };

// The forms that a tensor-core engine of the vendor's real library has (docs/adr on shadow graphs; a test asks it).
struct Forms {
	bool isWide, isNarrow;
};
Forms formsOf(const Convolution &convolution, Dtype precision, int computeCapability, size_t cudnnVersion);

// Asked for an engine that fuses the gradient of a filter with anything, the heuristics of older versions divide by
// zero for GPUs since Hopper, and the process is gone (seen in 9.10.2 and 9.13 to 9.18.1 for sm_90 and sm_100,
// in 9.19, 9.20, 9.24 and 9.28 not; docs/adr/0022). They must not be asked.
constexpr bool isDeadly(Direction direction, bool isFused, int computeCapability, size_t cudnnVersion)
{
	return direction == Direction::backwardFilter && isFused && computeCapability >= 90 && cudnnVersion < 91900;
}

// The geometry that the shadow computes: channels of one group padded to 8. Strides are not its own.
Convolution padded(const Convolution &convolution);

// May the engine write the result itself: packed channels-last, nothing padded, nothing added?
bool isWrittenInPlace(const Convolution &convolution, bool isBetaZero);

enum ShadowUid : int64_t { uidFirst = 1, uidSecond, uidVirtual, uidScale, uidResult };
Graph graphOf(const Convolution &convolution, Form form, Dtype precision);

} // namespace autoamp::op
