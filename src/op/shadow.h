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

// One tensor of the shadow: dense, the last of `dims` outermost in `of`: N (K of a filter), C, D, H, W.
struct ShadowTensor {
	int64_t dims[mostDims]; // as the graph has them, with the padding
	int64_t size() const { return dims[0] * dims[1] * dims[2] * dims[3] * dims[4]; }
};

struct Shadow {
	int spatial; // 2 or 3: one dimension is an image of height 1
	ShadowTensor x, w, y;
	const ShadowTensor &first(Direction direction) const { return direction == Direction::backwardData ? y : x; }
	const ShadowTensor &second(Direction direction) const { return direction == Direction::backwardFilter ? y : w; }
	const ShadowTensor &result(Direction direction) const
	{
		return direction == Direction::forward ? y : direction == Direction::backwardData ? x : w;
	}
};
Shadow shadowOf(const Convolution &convolution);

enum ShadowUid : int64_t { uidFirst = 1, uidSecond, uidVirtual, uidScale, uidResult };
Graph graphOf(const Convolution &convolution, Form form, Dtype precision);

} // namespace autoamp::op
