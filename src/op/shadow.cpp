#include "src/op/shadow.h"

#include <algorithm>

namespace autoamp::op {

namespace {

constexpr int pointwiseMul = 1; // CUDNN_POINTWISE_MUL

// The added zeros cost next to nothing, and most channel counts have no fast engine without them. Channels of several
// groups are not padded: the zeros would be channels of the next group.
int64_t paddedTo8(int64_t channels, int32_t groups)
{
	return groups == 1 ? (channels + 7) / 8 * 8 : channels;
}

// Packed, channels-last. One spatial dimension becomes an image of height 1.
GraphTensor tensorOf(int64_t uid, Dtype type, const Tensor &from, int spatial)
{
	GraphTensor tensor = {.uid = uid, .type = type, .rank = 2 + spatial};
	tensor.dims[0] = from.dims[0], tensor.dims[1] = from.dims[1], tensor.dims[2] = 1;
	for (int i = 2; i < from.rank; i++)
		tensor.dims[i + tensor.rank - from.rank] = from.dims[i];
	int64_t stride = tensor.dims[1];
	tensor.strides[1] = 1;
	for (int i = tensor.rank - 1; i >= 2; stride *= tensor.dims[i--])
		tensor.strides[i] = stride;
	tensor.strides[0] = stride;
	return tensor;
}

} // namespace

Forms formsOf(const Convolution &convolution, Dtype precision, int computeCapability, size_t cudnnVersion)
{
	const bool isHalf = precision == Dtype::float16, isForward = convolution.direction == Direction::forward;
	const bool isData = convolution.direction == Direction::backwardData, isDeep = convolution.spatial == 3;
	const int64_t channels = convolution.w.dims[1], filters = convolution.w.dims[0] / convolution.groups;
	bool hasStride = false, isDilated = false;
	for (int i = 0; i < convolution.spatial; i++) {
		hasStride |= convolution.stride[i] > 1;
		isDilated |= convolution.dilation[i] > 1;
	}
	if (computeCapability < (isHalf ? 75 : 80))
		return {};
	bool isWide;
	if (convolution.groups == 1)
		isWide = !isData || !hasStride || (!isDeep && !isDilated && computeCapability >= 80);
	else if (isForward)
		isWide = computeCapability >= 80 && (isDeep || channels % 2 == 0);
	else
		isWide = computeCapability / 10 == 10 && channels % 8 == 0 && filters % 8 == 0 && !(isData && hasStride);
	// Not exact: of 1,920 queries for grouped geometries with odd strides and sizes, 91 had no engine. Such a call is a
	// fallback.
	const bool isNarrow = !isDeep || convolution.groups == 1 || channels == 1 || !(isWide && isData);
	// float16 has no narrow form: a float16 result would overflow.
	return {isWide && !isDeadly(convolution.direction, true, computeCapability, cudnnVersion), isNarrow && !isHalf};
}

Convolution padded(const Convolution &convolution)
{
	Convolution shadow = convolution;
	const int32_t groups = convolution.groups;
	shadow.w.dims[0] = shadow.y.dims[1] = paddedTo8(convolution.w.dims[0], groups);
	shadow.w.dims[1] = paddedTo8(convolution.w.dims[1], groups);
	shadow.x.dims[1] = shadow.w.dims[1] * groups;
	return shadow;
}

bool isWrittenInPlace(const Convolution &convolution, bool isBetaZero)
{
	const Tensor &result = convolution.result(), dense = padded(convolution).result();
	const GraphTensor packed = tensorOf(0, Dtype::float32, dense, convolution.spatial);
	bool isSame = isBetaZero && !convolution.hasBias && convolution.activation == Activation::none &&
	              !(convolution.isFlipped && convolution.direction == Direction::backwardFilter);
	for (int i = 0; isSame && i < result.rank; i++) // the stride of a dimension of size 1 has no effect
		isSame = result.dims[i] == dense.dims[i] && (result.dims[i] == 1 || result.strides[i] == packed.strides[i]);
	return isSame;
}

Graph graphOf(const Convolution &convolution, Form form, Dtype precision)
{
	const Convolution shadow = padded(convolution);
	const int spatial = std::max<int>(2, convolution.spatial);
	const bool isWide = form == Form::wide;
	Graph graph;
	graph.tensors = {tensorOf(uidFirst, precision, shadow.first(), spatial),
	                 tensorOf(uidSecond, precision, shadow.second(), spatial),
	                 tensorOf(uidResult, isWide ? Dtype::float32 : precision, shadow.result(), spatial)};
	GraphNode node = {.kind = static_cast<NodeKind>(convolution.direction),
	                  .first = uidFirst,
	                  .second = uidSecond,
	                  .result = isWide ? uidVirtual : uidResult,
	                  .spatial = spatial};
	for (int i = 0; i < spatial; i++) {
		const int at = i - (spatial - convolution.spatial);
		node.padBefore[i] = at < 0 ? 0 : convolution.padBefore[at];
		node.padAfter[i] = at < 0 ? 0 : convolution.padAfter[at];
		node.stride[i] = at < 0 ? 1 : convolution.stride[at];
		node.dilation[i] = at < 0 ? 1 : convolution.dilation[at];
	}
	graph.nodes = {node};
	if (isWide) {
		GraphTensor sum = graph.tensors.back(), scale = {.uid = uidScale, .type = Dtype::float32, .rank = 2 + spatial};
		sum.uid = uidVirtual, sum.isVirtual = true;
		std::fill_n(scale.dims, scale.rank, 1);
		std::fill_n(scale.strides, scale.rank, 1);
		graph.tensors.insert(graph.tensors.end(), {sum, scale});
		graph.nodes.push_back({.kind = NodeKind::pointwise,
		                       .first = uidVirtual,
		                       .second = uidScale,
		                       .result = uidResult,
		                       .pointwise = pointwiseMul});
	}
	return graph;
}

} // namespace autoamp::op
