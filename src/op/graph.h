// A cuDNN operation graph as a value: tensors with uids, and the nodes that compute them. Plain data without vendor
// types. Any thread.
#pragma once

#include "src/op/op.h"

#include <limits>
#include <vector>

namespace autoamp::op {

constexpr int mostGraphDims = 8;

struct GraphTensor {
	int64_t uid = 0;
	Dtype type = Dtype::none;
	int rank = 0;
	int64_t dims[mostGraphDims] = {}, strides[mostGraphDims] = {};
	int64_t alignment = 16; // bytes
	bool isVirtual = false; // not in memory
	bool isByValue = false; // a scalar in host memory
};

// other: not supported by autoamp; `obstacle` then gives the reason.
enum class NodeKind : uint8_t { forward, backwardData, backwardFilter, matmul, pointwise, other };

// result = kind(first, second): forward x, w; backwardData dy, w; backwardFilter x, dy.
struct GraphNode {
	NodeKind kind = NodeKind::pointwise;
	int64_t first = 0, second = 0, result = 0; // uids; 0 is a valid uid
	bool hasSecond = true;                     // false for a pointwise node with one operand
	Obstacle obstacle = Obstacle::none;
	int pointwise = 0; // cudnnPointwiseMode_t
	Dtype compute = Dtype::float32;
	double alpha = 1, beta = 0;
	// For a pointwise node: the factors of its operands, and the parameters of a RELU.
	double factor[2] = {1, 1};
	double lowerClip = 0, upperClip = std::numeric_limits<double>::max(), slope = 0;
	// For a convolution:
	bool isFlipped = false;
	int spatial = 0;
	int64_t padBefore[mostGraphDims] = {}, padAfter[mostGraphDims] = {};
	int64_t stride[mostGraphDims] = {}, dilation[mostGraphDims] = {};

	bool reads(int64_t uid) const { return first == uid || (hasSecond && second == uid); }
};

struct Graph {
	std::vector<GraphTensor> tensors;
	std::vector<GraphNode> nodes; // in order of computation
};

} // namespace autoamp::op
