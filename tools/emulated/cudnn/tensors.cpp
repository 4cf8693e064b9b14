// Element-wise operations: sums, products and copies of tensors, reductions, dropout states.
#include "tools/emulated/cudnn/layer.h"

#include <cmath>
#include <cstring>

using namespace emulated::cudnn;

namespace {

double operate(cudnnOpTensorOp_t op, bool propagatesNan, double a, double b)
{
	switch (op) {
	case CUDNN_OP_TENSOR_ADD:
		return a + b;
	case CUDNN_OP_TENSOR_MUL:
		return a * b;
	case CUDNN_OP_TENSOR_SQRT:
		return std::sqrt(a);
	case CUDNN_OP_TENSOR_NOT:
		return 1 - a;
	default:
		if (propagatesNan && (std::isnan(a) || std::isnan(b)))
			return NAN;
		return op == CUDNN_OP_TENSOR_MIN ? std::fmin(a, b) : std::fmax(a, b);
	}
}

struct Reduced {
	double value;
	int64_t index = 0, count = 0; // index of the extreme; number of elements
};

void reduce(const cudnnReduceTensorStruct &d, Reduced &sum, double a, int64_t index)
{
	auto extreme = [&](bool isBetter, double candidate) {
		const bool takesNan = d.nan == CUDNN_PROPAGATE_NAN && std::isnan(candidate) && !std::isnan(sum.value);
		if (isBetter || takesNan || sum.count == 0 || (std::isnan(sum.value) && d.nan != CUDNN_PROPAGATE_NAN)) {
			sum.value = candidate;
			sum.index = index;
		}
	};
	switch (d.op) {
	case CUDNN_REDUCE_TENSOR_MUL:
		sum.value *= a;
		break;
	case CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS:
		sum.value *= a == 0 ? 1 : a;
		break;
	case CUDNN_REDUCE_TENSOR_MIN:
		extreme(a < sum.value, a);
		break;
	case CUDNN_REDUCE_TENSOR_MAX:
		extreme(a > sum.value, a);
		break;
	case CUDNN_REDUCE_TENSOR_AMAX:
		extreme(std::abs(a) > sum.value, std::abs(a));
		break;
	case CUDNN_REDUCE_TENSOR_NORM1:
		sum.value += std::abs(a);
		break;
	case CUDNN_REDUCE_TENSOR_NORM2:
		sum.value += a * a;
		break;
	default:
		sum.value += a;
	}
	++sum.count;
}

bool hasIndices(const cudnnReduceTensorStruct &d)
{
	return d.indices == CUDNN_REDUCE_TENSOR_FLATTENED_INDICES && d.op >= CUDNN_REDUCE_TENSOR_MIN &&
	       d.op <= CUDNN_REDUCE_TENSOR_AMAX;
}

size_t indexBytes(cudnnIndicesType_t type)
{
	constexpr size_t sizes[] = {4, 8, 2, 1};
	return sizes[type];
}

size_t reductionWorkspace(const Tensor &a, const Tensor &c)
{
	return a.hasSameDims(c) ? 0 : 64 * c.count();
}

int64_t foldOf(const cudnnTensorTransformStruct &d, int dimension)
{
	return dimension < 2 ? 1 : std::max<int64_t>(d.fold[dimension - 2], 1);
}

// Number of channels that folding makes from one.
int64_t foldsOf(const cudnnTensorTransformStruct &d)
{
	int64_t folds = 1;
	for (int i = 2; i < d.rank; ++i)
		folds *= foldOf(d, i);
	return folds;
}

// The extents of the transformed tensor; false: it is empty, or the channels cannot be unfolded. Folding comes after
// padding and fills the last block; unfolding comes before padding.
bool transformed(const cudnnTensorTransformStruct &d, const Tensor &from, int *dims)
{
	const bool folds = d.direction == CUDNN_TRANSFORM_FOLD;
	const int64_t channels = foldsOf(d);
	bool is = d.rank == from.rank && (folds || from.dims[1] % channels == 0);
	for (int i = 0; is && i < from.rank; ++i) {
		const int64_t pads = d.before[i] + d.after[i], fold = foldOf(d, i), padded = from.dims[i] + pads;
		const int64_t extent = folds    ? i == 1 ? padded * channels : (padded + fold - 1) / fold
		                       : i == 1 ? from.dims[1] / channels + pads
		                                : from.dims[i] * fold + pads;
		dims[i] = static_cast<int>(extent);
		is = padded > 0 && extent > 0;
	}
	return is;
}

// The element of `x` that a transform copies to element `at` of `y`; -1: padding. A folded channel combines the channel
// number, which is faster, with the place in the block.
int64_t transformedFrom(const cudnnTensorTransformStruct &d, const Tensor &x, const Tensor &y, int64_t at)
{
	int64_t place[CUDNN_DIM_MAX] = {};
	for (int i = y.rank - 1; i >= 0; --i) {
		place[i] = at % y.dims[i];
		at /= y.dims[i];
	}
	const bool folds = d.direction == CUDNN_TRANSFORM_FOLD;
	if (folds) {
		const int64_t channels = y.dims[1] / foldsOf(d);
		int64_t block = place[1] / channels;
		place[1] %= channels;
		for (int i = y.rank - 1; i >= 2; --i) {
			place[i] = place[i] * foldOf(d, i) + block % foldOf(d, i);
			block /= foldOf(d, i);
		}
	}
	for (int i = 0; i < y.rank; ++i)
		place[i] -= d.before[i];
	if (!folds) {
		const int64_t channels = x.dims[1] / foldsOf(d);
		int64_t block = 0;
		if (place[1] < 0 || place[1] >= channels)
			return -1;
		for (int i = 2; i < y.rank; ++i) {
			if (place[i] < 0)
				return -1;
			block = block * foldOf(d, i) + place[i] % foldOf(d, i);
			place[i] /= foldOf(d, i);
		}
		place[1] += block * channels;
	}
	int64_t found = 0;
	for (int i = 0; i < x.rank; ++i) {
		if (place[i] < 0 || place[i] >= x.dims[i])
			return -1;
		found = found * x.dims[i] + place[i];
	}
	return found;
}

cudnnStatus_t transform(cudnnHandle_t handle, const char *name, const cudnnTensorTransformStruct *d, const void *alpha,
                        const cudnnTensorDescriptor_t source, const void *from, const void *beta,
                        const cudnnTensorDescriptor_t target, void *to)
{
	REFUSE_IF(!d || !source, BAD_PARAM);
	SCALARS(target);
	const Tensor x = source->tensor, y = target->tensor;
	int dims[CUDNN_DIM_MAX];
	REFUSE_IF(!transformed(*d, x, dims), NOT_SUPPORTED);
	REFUSE_IF(y.rank != x.rank || !std::equal(dims, dims + x.rank, y.dims), BAD_PARAM);
	const cudnnTensorTransformStruct pads = *d;
	return blend(handle, name, a, b, {{source, from}}, {target, to}, [=](std::vector<Values> v) {
		Values result(y.count());
		for (int64_t i = 0; i < y.count(); ++i) {
			const int64_t at = transformedFrom(pads, x, y, i);
			result[i] = at >= 0 ? v[0][at] : 0;
		}
		return result;
	});
}

} // namespace

ENTRY(cudnnOpTensor, EXECUTION_FAILED, handle, op, alpha, xDesc, x, alpha2, zDesc, z, beta, yDesc, y)
{
	SCALARS(yDesc);
	REFUSE_IF(!op || !xDesc, BAD_PARAM);
	const cudnnOpTensorStruct d = *op;
	const bool isUnary = d.op == CUDNN_OP_TENSOR_SQRT || d.op == CUDNN_OP_TENSOR_NOT;
	REFUSE_IF(!isUnary && (!zDesc || !alpha2), BAD_PARAM);
	const Tensor whole = xDesc->tensor, part = isUnary ? whole : zDesc->tensor;
	REFUSE_IF(!whole.hasSameDims(yDesc->tensor) || !isBroadcast(part, whole), BAD_PARAM);
	REFUSE_IF(whole.type != yDesc->tensor.type || part.type != whole.type, NOT_SUPPORTED);
	REFUSE_IF((d.compute == CUDNN_DATA_DOUBLE) != (whole.type == CUDNN_DATA_DOUBLE), NOT_SUPPORTED);
	const double second = isUnary ? 0 : scalar(alpha2, whole.type);
	return blend(handle, __func__, 1, b, {{xDesc, x}, {isUnary ? nullptr : zDesc, isUnary ? nullptr : z, isUnary}},
	             {yDesc, y}, [=](std::vector<Values> v) {
		             const std::vector<int64_t> at = broadcast(part, whole);
		             for (size_t i = 0; i < v[0].size(); ++i)
			             v[0][i] = operate(d.op, d.nan == CUDNN_PROPAGATE_NAN, a * v[0][i],
			                               isUnary ? 0 : second * v[1][at[i]]);
		             return v[0];
	             });
}

ENTRY(cudnnAddTensor, EXECUTION_FAILED, handle, alpha, xDesc, x, beta, yDesc, y)
{
	SCALARS(yDesc);
	REFUSE_IF(!xDesc || !isBroadcast(xDesc->tensor, yDesc->tensor), BAD_PARAM);
	const Tensor part = xDesc->tensor, whole = yDesc->tensor;
	REFUSE_IF(part.type != whole.type, NOT_SUPPORTED);
	return blend(handle, __func__, a, b, {{xDesc, x}}, {yDesc, y}, [=](std::vector<Values> v) {
		Values result;
		for (int64_t at : broadcast(part, whole))
			result.push_back(v[0][at]);
		return result;
	});
}

ENTRY(cudnnTransformTensor, EXECUTION_FAILED, handle, alpha, xDesc, x, beta, yDesc, y)
{
	SCALARS(yDesc);
	REFUSE_IF(!xDesc || !xDesc->tensor.hasSameDims(yDesc->tensor), BAD_PARAM);
	const auto converts = [](cudnnDataType_t type) { return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF; };
	const cudnnDataType_t from = xDesc->tensor.type, to = yDesc->tensor.type;
	REFUSE_IF(from != to && !(converts(from) && converts(to)), NOT_SUPPORTED);
	return blend(handle, __func__, a, b, {{xDesc, x}}, {yDesc, y}, [](std::vector<Values> v) { return v[0]; });
}

ENTRY(cudnnTransformTensorEx, EXECUTION_FAILED, handle, transformation, alpha, source, from, beta, target, to)
{
	return transform(handle, __func__, transformation, alpha, source, from, beta, target, to);
}

ENTRY(cudnnTransformFilter, EXECUTION_FAILED, handle, transformation, alpha, source, from, beta, target, to)
{
	return transform(handle, __func__, transformation, alpha, source, from, beta, target, to);
}

// Descriptors for the gradient of a strided convolution as that of an unstrided one: blocks of the stride's size become
// channels. All numbers are those of the real library, which needs no handle for them
// (tests/emulated/cudnn/layers.cpp).
ENTRY(cudnnGetFoldedConvBackwardDataDescriptors, BAD_PARAM, unused, w, dy, convolution, dx, format, foldedW, paddedDy,
      foldedConvolution, foldedDx, foldW, padDy, foldDx, unfoldDx)
{
	REFUSE_IF(!w || !dy || !convolution || !dx || !foldedW || !paddedDy || !foldedConvolution || !foldedDx, BAD_PARAM);
	REFUSE_IF(!foldW || !padDy || !foldDx || !unfoldDx, BAD_PARAM);
	const int rank = w->tensor.rank, spatial = convolution->rank;
	REFUSE_IF(rank != spatial + 2 || dy->tensor.rank != rank || dx->tensor.rank != rank, BAD_PARAM);

	constexpr int none[CUDNN_DIM_MAX] = {}, channelStep = 8;
	const auto up = [](int64_t value, int64_t step) { return static_cast<int>((value + step - 1) / step * step); };
	uint32_t fold[CUDNN_DIM_MAX] = {};
	int folds = 1;
	for (int i = 0; i < spatial; ++i)
		folds *= static_cast<int>(fold[i] = static_cast<uint32_t>(convolution->stride[i]));
	const int step = std::max(1, channelStep / folds);
	const auto &filter = w->tensor.dims, &image = dx->tensor.dims, &gradient = dy->tensor.dims;
	int wBefore[CUDNN_DIM_MAX] = {}, wAfter[CUDNN_DIM_MAX] = {}, wDims[CUDNN_DIM_MAX] = {};
	int dxAfter[CUDNN_DIM_MAX] = {}, dxLess[CUDNN_DIM_MAX] = {}, dxDims[CUDNN_DIM_MAX] = {};
	int dyAfter[CUDNN_DIM_MAX] = {}, dyDims[CUDNN_DIM_MAX] = {}, pad[6] = {}, one[6] = {};
	wDims[0] = up(filter[0], channelStep), wDims[1] = up(filter[1], step) * folds;
	dxDims[0] = static_cast<int>(image[0]), dxDims[1] = up(image[1], step) * folds;
	dyDims[0] = static_cast<int>(gradient[0]), dyDims[1] = up(gradient[1], channelStep);
	wAfter[0] = wDims[0] - static_cast<int>(filter[0]);
	wAfter[1] = wDims[1] / folds - static_cast<int>(filter[1]);
	dxAfter[1] = dxDims[1] / folds - static_cast<int>(image[1]);
	dxLess[1] = -dxAfter[1];
	dyAfter[1] = dyDims[1] - static_cast<int>(gradient[1]);
	for (int i = 0; i < spatial; ++i) {
		const int stride = convolution->stride[i], dim = i + 2, whole = up(image[dim], stride);
		wBefore[dim] = up(convolution->pad[i], stride) - convolution->pad[i];
		pad[i] = (convolution->pad[i] + wBefore[dim]) / stride;
		const int taps = static_cast<int>(filter[dim]) + wBefore[dim];
		wDims[dim] = up(taps, stride) / stride;
		wAfter[dim] = wDims[dim] * stride - taps;
		dxDims[dim] = whole / stride;
		dxLess[dim] = static_cast<int>(image[dim]) - whole;
		dyDims[dim] = dxDims[dim] + 2 * pad[i] - convolution->dilation[i] * (wDims[dim] - 1);
		dyAfter[dim] = dyDims[dim] - static_cast<int>(gradient[dim]);
		one[i] = 1;
	}
	const bool hasFastChannels = dx->tensor.strides[rank - 1] != 1;
	const auto count = static_cast<uint32_t>(rank);
	const cudnnConvolutionStruct asked = *convolution;
	const cudnnStatus_t statuses[] = {
	    ::cudnnSetFilterNdDescriptor(foldedW, w->tensor.type, format, rank, wDims),
	    ::cudnnSetTensorNdDescriptorEx(paddedDy, format, dy->tensor.type, rank, dyDims),
	    ::cudnnSetConvolutionNdDescriptor(foldedConvolution, spatial, pad, one, asked.dilation, asked.mode,
	                                      asked.compute),
	    ::cudnnSetConvolutionGroupCount(foldedConvolution, asked.groups),
	    ::cudnnSetConvolutionMathType(foldedConvolution, asked.math),
	    ::cudnnSetTensorNdDescriptorEx(foldedDx, format, dx->tensor.type, rank, dxDims),
	    ::cudnnSetTensorTransformDescriptor(foldW, count, format, wBefore, wAfter, fold, CUDNN_TRANSFORM_FOLD),
	    ::cudnnSetTensorTransformDescriptor(padDy, count, format, none, dyAfter, nullptr, CUDNN_TRANSFORM_FOLD),
	    ::cudnnSetTensorTransformDescriptor(foldDx, count, format, none, dxAfter, fold, CUDNN_TRANSFORM_FOLD),
	    ::cudnnSetTensorTransformDescriptor(unfoldDx, count, hasFastChannels ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
	                                        none, dxLess, fold, CUDNN_TRANSFORM_UNFOLD)};
	for (const cudnnStatus_t status : statuses)
		if (status)
			return status;
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnScaleTensor, EXECUTION_FAILED, handle, yDesc, y, alpha)
{
	const void *beta = alpha;
	SCALARS(yDesc);
	return blend(handle, __func__, a, 0 * b, {{yDesc, y}}, {yDesc, y}, [](std::vector<Values> v) { return v[0]; });
}

ENTRY(cudnnSetTensor, EXECUTION_FAILED, handle, yDesc, y, value)
{
	REFUSE_IF(!yDesc || !value || yDesc->isVectorized, BAD_PARAM);
	double number = 0; // in y's own type
	emulated::dnn::load(emulated::dnn::packed(yDesc->tensor.type, 0, nullptr), value, &number);
	const int64_t count = yDesc->tensor.count();
	return blend(handle, __func__, 1, 0, {}, {yDesc, y}, [=](std::vector<Values>) { return Values(count, number); });
}

ENTRY(cudnnGetReductionIndicesSize, BAD_PARAM, handle, reduction, aDesc, cDesc, bytes)
{
	REFUSE_IF(!handleOf(handle) || !reduction || !aDesc || !cDesc || !bytes, BAD_PARAM);
	*bytes = hasIndices(*reduction) ? cDesc->tensor.count() * indexBytes(reduction->indicesType) : 0;
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetReductionWorkspaceSize, BAD_PARAM, handle, reduction, aDesc, cDesc, bytes)
{
	REFUSE_IF(!handleOf(handle) || !reduction || !aDesc || !cDesc || !bytes, BAD_PARAM);
	*bytes = reductionWorkspace(aDesc->tensor, cDesc->tensor);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnReduceTensor, EXECUTION_FAILED, handle, reduction, indices, indicesBytes, workspace, workspaceBytes, alpha,
      xDesc, x, beta, yDesc, y)
{
	SCALARS(yDesc);
	REFUSE_IF(!reduction || !xDesc || !y || !isBroadcast(yDesc->tensor, xDesc->tensor), BAD_PARAM);
	const cudnnReduceTensorStruct d = *reduction;
	const Tensor whole = xDesc->tensor, part = yDesc->tensor;
	REFUSE_IF(d.indicesType != CUDNN_32BIT_INDICES && hasIndices(d), NOT_SUPPORTED);
	REFUSE_IF((d.compute == CUDNN_DATA_DOUBLE) != (whole.type == CUDNN_DATA_DOUBLE), NOT_SUPPORTED);
	const size_t needed = reductionWorkspace(whole, part), entries = hasIndices(d) ? part.count() : 0;
	REFUSE_IF(workspaceBytes < needed || (needed && !workspace), BAD_PARAM);
	REFUSE_IF(entries && (!indices || indicesBytes < entries * indexBytes(d.indicesType)), BAD_PARAM);
	return launch(handle, __func__, {{xDesc, x}}, {{yDesc, y}}, [=](Memory &memory, std::vector<Values> v) {
		if (void *scratch = needed ? memory.at(workspace, needed) : nullptr)
			std::memset(scratch, 0xff, needed);
		const double start = d.op == CUDNN_REDUCE_TENSOR_MUL || d.op == CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS ? 1 : 0;
		std::vector<Reduced> sums(part.count(), {start});
		std::vector<int64_t> seen(part.count());
		const std::vector<int64_t> to = broadcast(part, whole);
		for (size_t i = 0; i < to.size(); ++i)
			reduce(d, sums[to[i]], v[0][i], seen[to[i]]++);
		Values results;
		for (const Reduced &sum : sums)
			results.push_back(d.op == CUDNN_REDUCE_TENSOR_AVG     ? sum.value / static_cast<double>(sum.count)
			                  : d.op == CUDNN_REDUCE_TENSOR_NORM2 ? std::sqrt(sum.value)
			                                                      : sum.value);
		memory.write(std::move(results), part, y, a, b);
		auto *places = static_cast<uint32_t *>(entries ? memory.at(indices, entries * 4, 4) : nullptr);
		for (size_t i = 0; places && i < entries; ++i)
			places[i] = static_cast<uint32_t>(sums[i].index);
	});
}

// ---- dropout

ENTRY(cudnnDropoutGetStatesSize, BAD_PARAM, handle, bytes)
{
	REFUSE_IF(!handleOf(handle) || !bytes, BAD_PARAM);
	*bytes = DropoutState::bytes;
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnRestoreDropoutDescriptor, BAD_PARAM, descriptor, handle, dropout, states, bytes, seed)
{
	REFUSE_IF(!descriptor || !handleOf(handle) || !(dropout >= 0 && dropout <= 1), BAD_PARAM);
	REFUSE_IF(states && bytes < DropoutState::bytes, INVALID_VALUE);
	*descriptor = {dropout, states, seed};
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnSetDropoutDescriptor, EXECUTION_FAILED, descriptor, handle, dropout, states, bytes, seed)
{
	const cudnnStatus_t status = ::cudnnRestoreDropoutDescriptor(descriptor, handle, dropout, states, bytes, seed);
	if (status || !states)
		return status;
	return run(*handleOf(handle), __func__, [=](Memory &memory) {
		if (void *at = memory.at(states, DropoutState::bytes)) {
			std::memset(at, 0, DropoutState::bytes);
			static_cast<DropoutState *>(at)->seed = seed;
		}
	});
}

ENTRY(cudnnGetDropoutDescriptor, BAD_PARAM, descriptor, handle, dropout, states, seed)
{
	REFUSE_IF(!descriptor || !handleOf(handle), BAD_PARAM);
	give(dropout, descriptor->probability, seed, descriptor->seed);
	if (states)
		*states = descriptor->states;
	return CUDNN_STATUS_SUCCESS;
}
