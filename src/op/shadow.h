// Computation of a convolution in 16 bits: its shadow graph for cuDNN has packed channels-last tensors whose channels
// are padded to 8. Pure functions of the geometry; any thread.
#pragma once

#include "src/op/convolution.h"
#include "src/op/graph.h"

namespace autoamp::op {

// wide: the convolution is multiplied by a scalar on the device and written in fp32. narrow: the result has 16 bits and
// a kernel widens it.
enum class Form : uint8_t { none, wide, narrow };

// Forms for which the vendor library has a tensor-core engine (see docs/adr/0022). A test queries the real library.
struct Forms {
	bool isWide, isNarrow;
};
Forms formsOf(const Convolution &convolution, Dtype precision, int computeCapability, size_t cudnnVersion);

// True if cuDNN must not be queried for an engine. Up to 9.18.1, its heuristics divide by zero for a fused filter
// gradient on GPUs since Hopper, which ends the process. Seen in 9.10.2 and 9.13 to 9.18.1 for sm_90 and sm_100; not in
// 9.19, 9.20, 9.24 and 9.28 (docs/adr/0022).
constexpr bool isDeadly(Direction direction, bool isFused, int computeCapability, size_t cudnnVersion)
{
	return direction == Direction::backwardFilter && isFused && computeCapability >= 90 && cudnnVersion < 91900;
}

// Geometry computed by the shadow graph: channels of one group are padded to 8. Its strides are not set.
Convolution padded(const Convolution &convolution);

// True if the engine can write the result of the application directly: packed channels-last, without padding or
// additions.
bool isWrittenInPlace(const Convolution &convolution, bool isBetaZero);

enum ShadowUid : int64_t { uidFirst = 1, uidSecond, uidVirtual, uidScale, uidResult };
Graph graphOf(const Convolution &convolution, Form form, Dtype precision);

} // namespace autoamp::op
