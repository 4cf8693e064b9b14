#include "src/op/shadow.h"

#include <algorithm>

namespace autoamp::op {

namespace {

constexpr int pointwiseMul = 1; // CUDNN_POINTWISE_MUL

// Zeros more cost nothing that counts, and without them most channels have no fast engine. Channels of a group cannot
// get any: they would be the next group's.
int64_t padded(int64_t channels, int32_t groups)
{
	return groups == 1 ? (channels + 7) / 8 * 8 : channels;
}

GraphTensor tensorOf(int64_t uid, Dtype type, const ShadowTensor &from, int spatial)
{
	GraphTensor tensor = {.uid = uid, .type = type, .rank = 2 + spatial};
	tensor.dims[0] = from.dims[0], tensor.dims[1] = from.dims[1];
	int64_t stride = from.dims[1];
	tensor.strides[1] = 1;
	for (int i = spatial; i > 0; i--) {
		tensor.dims[1 + i] = from.dims[1 + i + mostSpatial - spatial];
		tensor.strides[1 + i] = stride;
		stride *= tensor.dims[1 + i];
	}
	tensor.strides[0] = stride;
	return tensor;
}

} // namespace

Form formOf(const Convolution &convolution, Dtype precision, int computeCapability)
{
	const bool isHalf = precision == Dtype::float16, isForward = convolution.direction == Direction::forward;
	const bool isData = convolution.direction == Direction::backwardData, isDeep = convolution.spatial == 3;
	const int64_t channels = convolution.w.dims[1], filters = convolution.w.dims[0] / convolution.groups;
	bool hasStride = false;
	for (int i = 0; i < convolution.spatial; i++)
		hasStride |= convolution.stride[i] > 1;
	if (computeCapability < (isHalf ? 75 : 80))
		return Form::none;
	bool isWide;
	if (convolution.groups == 1)
		isWide = !isData || !hasStride || (!isDeep && computeCapability >= 80);
	else if (isForward)
		isWide = computeCapability >= 80 && (isDeep || channels % 2 == 0);
	else
		isWide = computeCapability / 10 == 10 && channels % 8 == 0 && filters % 8 == 0 && !(isData && hasStride);
	if (isWide)
		return Form::wide;
	// A float16 result would overflow.
	const bool isNarrow = !isHalf && (!isDeep || convolution.groups == 1 || channels == 1 || channels >= 8);
	return isNarrow ? Form::narrow : Form::none;
}

Shadow shadowOf(const Convolution &convolution)
{
	Shadow shadow = {std::max<int>(2, convolution.spatial), {}, {}, {}};
	const auto fill = [&](ShadowTensor &to, const Tensor &from, int64_t outer, int64_t channels) {
		to.dims[0] = outer, to.dims[1] = channels;
		for (int i = 0; i < mostSpatial; i++) {
			const int at = i - (mostSpatial - convolution.spatial);
			to.dims[2 + i] = at < 0 ? 1 : from.dims[2 + at];
		}
	};
	const int32_t groups = convolution.groups;
	const int64_t filters = padded(convolution.w.dims[0], groups);
	fill(shadow.x, convolution.x, convolution.x.dims[0], padded(convolution.x.dims[1], groups));
	fill(shadow.w, convolution.w, filters, padded(convolution.w.dims[1], groups));
	fill(shadow.y, convolution.y, convolution.y.dims[0], filters);
	return shadow;
}

Graph graphOf(const Convolution &convolution, Form form, Dtype precision)
{
	const Shadow shadow = shadowOf(convolution);
	const Direction direction = convolution.direction;
	const bool isWide = form == Form::wide;
	Graph graph;
	graph.tensors = {
	    tensorOf(uidFirst, precision, shadow.first(direction), shadow.spatial),
	    tensorOf(uidSecond, precision, shadow.second(direction), shadow.spatial),
	    tensorOf(uidResult, isWide ? Dtype::float32 : precision, shadow.result(direction), shadow.spatial)};
	GraphNode node = {.kind = static_cast<NodeKind>(direction),
	                  .first = uidFirst,
	                  .second = uidSecond,
	                  .result = isWide ? uidVirtual : uidResult,
	                  .spatial = shadow.spatial};
	for (int i = 0; i < shadow.spatial; i++) {
		const int at = i - (shadow.spatial - convolution.spatial);
		node.padBefore[i] = at < 0 ? 0 : convolution.padBefore[at];
		node.padAfter[i] = at < 0 ? 0 : convolution.padAfter[at];
		node.stride[i] = at < 0 ? 1 : convolution.stride[at];
		node.dilation[i] = at < 0 ? 1 : convolution.dilation[at];
	}
	graph.nodes = {node};
	if (isWide) {
		GraphTensor sum = graph.tensors.back(),
		            scale = {.uid = uidScale, .type = Dtype::float32, .rank = 2 + shadow.spatial};
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
