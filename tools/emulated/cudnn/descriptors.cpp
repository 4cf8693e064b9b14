// Creates, sets and reads the descriptors of the legacy interface. Rejected values and their statuses are those of the
// real library (tests/emulated/cudnn/observe.py).
#include "tools/emulated/cudnn/descriptors.h"

#include <climits>

using namespace emulated::cudnn;

emulated::dnn::Convolution cudnnConvolutionStruct::geometry() const
{
	emulated::dnn::Convolution made;
	made.spatial = rank;
	made.groups = groups;
	made.isFlipped = mode == CUDNN_CONVOLUTION;
	std::copy(pad, pad + 6, made.prePad);
	std::copy(pad, pad + 6, made.postPad);
	std::copy(stride, stride + 6, made.stride);
	std::copy(dilation, dilation + 6, made.dilation);
	return made;
}

namespace emulated::cudnn {

namespace {

template <typename Enum>
bool isBetween(Enum value, int least, int most)
{
	return static_cast<int>(value) >= least && static_cast<int>(value) <= most;
}

bool isFloating(cudnnDataType_t type)
{
	return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE || type == CUDNN_DATA_HALF;
}

int64_t channelsAVector(cudnnDataType_t type)
{
	return type == CUDNN_DATA_INT8x4 || type == CUDNN_DATA_UINT8x4 ? 4 : type == CUDNN_DATA_INT8x32 ? 32 : 1;
}

// Number of elements in the smallest memory range that contains the tensor.
int64_t span(const Tensor &tensor, bool isVectorized)
{
	const int64_t vector = isVectorized ? channelsAVector(tensor.type) : 1;
	const int64_t skipped = (tensor.dims[1] - tensor.dims[1] / vector) * tensor.strides[1];
	return tensor.rank ? tensor.before() + tensor.after() + 1 - skipped : 0;
}

cudnnStatus_t keep(cudnnTensorDescriptor_t descriptor, const Tensor &tensor, bool isVectorized = false)
{
	for (int i = 0; i < tensor.rank; ++i)
		REFUSE_IF(tensor.dims[i] <= 0 || tensor.strides[i] == 0, BAD_PARAM);
	REFUSE_IF(span(tensor, isVectorized) > INT_MAX, NOT_SUPPORTED);
	descriptor->tensor = tensor;
	descriptor->isVectorized = isVectorized;
	return CUDNN_STATUS_SUCCESS;
}

// Sets a tensor with the strides of a format.
cudnnStatus_t keep(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t format, cudnnDataType_t type, int rank,
                   const int *dims)
{
	REFUSE_IF(!descriptor || !elementBytes(type) || !isBetween(format, 0, 2), BAD_PARAM);
	const bool isVectorized = format == CUDNN_TENSOR_NCHW_VECT_C;
	const int64_t vector = isVectorized ? channelsAVector(type) : 1;
	REFUSE_IF(isVectorized && vector == 1, BAD_PARAM);
	REFUSE_IF(rank < 2, BAD_PARAM);
	REFUSE_IF(rank > CUDNN_DIM_MAX, NOT_SUPPORTED);
	REFUSE_IF(isVectorized && dims[1] % vector != 0, BAD_PARAM);
	Tensor tensor{type, rank, {}, {}};
	std::copy(dims, dims + rank, tensor.dims);
	double elements = 1;
	for (int i = 0; i < rank; ++i) {
		REFUSE_IF(dims[i] <= 0, BAD_PARAM);
		elements *= dims[i];
	}
	REFUSE_IF(elements > INT_MAX, NOT_SUPPORTED);
	int64_t step = format == CUDNN_TENSOR_NHWC ? dims[1] : 1;
	for (int i = rank - 1; i >= 2; --i) {
		tensor.strides[i] = step;
		step *= dims[i];
	}
	tensor.strides[1] = format == CUDNN_TENSOR_NHWC ? 1 : step;
	tensor.strides[0] = format == CUDNN_TENSOR_NHWC ? step : step * (dims[1] / vector);
	return keep(descriptor, tensor, isVectorized);
}

cudnnStatus_t keep(cudnnCTCLossDescriptor_t descriptor, const cudnnCTCLossStruct &values)
{
	REFUSE_IF(!descriptor, BAD_PARAM);
	REFUSE_IF(values.compute != CUDNN_DATA_FLOAT && values.compute != CUDNN_DATA_DOUBLE, NOT_SUPPORTED);
	*descriptor = values;
	return CUDNN_STATUS_SUCCESS;
}

template <typename From, typename To>
void copyOut(const From *from, int count, To *to)
{
	if (to)
		std::copy(from, from + std::max(count, 0), to);
}

} // namespace

size_t elementBytes(cudnnDataType_t type)
{
	return isBetween(type, CUDNN_DATA_INT8x4, CUDNN_DATA_INT8x32) && type != CUDNN_DATA_UINT8 ? channelsAVector(type)
	       : isBetween(type, 0, CUDNN_DATA_BFLOAT16)                                          ? dnn::sizeOf(type)
	                                                                                          : 0;
}

bool outputOf(const cudnnConvolutionStruct &convolution, const Tensor &x, const Tensor &w, int64_t *dims)
{
	if (x.rank != w.rank || x.rank != convolution.rank + 2 || x.dims[1] != w.dims[1] * convolution.groups)
		return false;
	const dnn::Convolution geometry = convolution.geometry();
	dims[0] = x.dims[0];
	dims[1] = w.dims[0];
	for (int i = 0; i < convolution.rank; ++i)
		if ((dims[i + 2] = geometry.outputExtent(i, x.dims[i + 2], w.dims[i + 2])) <= 0)
			return false;
	return true;
}

bool outputOf(const cudnnPoolingStruct &pooling, const Tensor &x, int64_t *dims)
{
	if (x.rank != pooling.rank + 2)
		return false;
	std::copy(x.dims, x.dims + 2, dims);
	for (int i = 0; i < pooling.rank; ++i) {
		const int64_t room = x.dims[i + 2] + 2 * pooling.pad[i] - pooling.window[i];
		dims[i + 2] = room < 0 ? 0 : room / pooling.stride[i] + 1;
	}
	return std::all_of(dims, dims + x.rank, [](int64_t extent) { return extent > 0; });
}

} // namespace emulated::cudnn

#define LIFE(kind)                                                                                                     \
	ENTRY(cudnnCreate##kind##Descriptor, ALLOC_FAILED, made)                                                           \
	{                                                                                                                  \
		REFUSE_IF(!made, BAD_PARAM);                                                                                   \
		*made = new cudnn##kind##Struct;                                                                               \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}                                                                                                                  \
	ENTRY(cudnnDestroy##kind##Descriptor, BAD_PARAM, descriptor)                                                       \
	{                                                                                                                  \
		delete descriptor;                                                                                             \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}
LIFE(Tensor)
LIFE(Filter)
LIFE(Convolution)
LIFE(Pooling)
LIFE(Activation)
LIFE(LRN)
LIFE(OpTensor)
LIFE(ReduceTensor)
LIFE(TensorTransform)
LIFE(Dropout)
LIFE(CTCLoss)
LIFE(SpatialTransformer)
LIFE(RNN)
LIFE(RNNData)

// Setters and getters whose parameters have the names of the descriptor's members, which the setters set in their
// order.
#define SETTER(name, isRefused, ...)                                                                                   \
	ENTRY(name, BAD_PARAM, descriptor, __VA_ARGS__)                                                                    \
	{                                                                                                                  \
		REFUSE_IF(!descriptor || isRefused, BAD_PARAM);                                                                \
		*descriptor = {__VA_ARGS__};                                                                                   \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}
#define GIVE_AGAIN() GIVE_EACH
#define GIVE_EACH(member, ...)                                                                                         \
	give(member, descriptor->member);                                                                                  \
	__VA_OPT__(GIVE_AGAIN ENTRY_NOTHING()(__VA_ARGS__))
#define GETTER(name, ...)                                                                                              \
	ENTRY(name, BAD_PARAM, descriptor, __VA_ARGS__)                                                                    \
	{                                                                                                                  \
		REFUSE_IF(!descriptor, BAD_PARAM);                                                                             \
		ENTRY_SCAN(GIVE_EACH(__VA_ARGS__))                                                                             \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}
SETTER(cudnnSetLRNDescriptor,
       n<CUDNN_LRN_MIN_N || n> CUDNN_LRN_MAX_N || beta < CUDNN_LRN_MIN_BETA || k < CUDNN_LRN_MIN_K, n, alpha, beta, k)
SETTER(cudnnSetOpTensorDescriptor,
       !isBetween(op, 0, 5) || !isBetween(nan, 0, 1) || (!isFloating(compute) && compute != CUDNN_DATA_BFLOAT16), op,
       compute, nan)
SETTER(cudnnSetReduceTensorDescriptor,
       !isBetween(op, 0, 8) || !isFloating(compute) || !isBetween(nan, 0, 1) || !isBetween(indices, 0, 1) ||
           !isBetween(indicesType, 0, 3),
       op, compute, nan, indices, indicesType)
GETTER(cudnnGetActivationDescriptor, mode, nan, coefficient)
GETTER(cudnnGetLRNDescriptor, n, alpha, beta, k)
GETTER(cudnnGetOpTensorDescriptor, op, compute, nan)
GETTER(cudnnGetReduceTensorDescriptor, op, compute, nan, indices, indicesType)
GETTER(cudnnGetCTCLossDescriptor, compute)
GETTER(cudnnGetCTCLossDescriptorEx, compute, normalization, gradient)
GETTER(cudnnGetCTCLossDescriptor_v8, compute, normalization, gradient, maxLabelLength)
GETTER(cudnnGetCTCLossDescriptor_v9, compute, normalization, gradient, maxLabelLength)
GETTER(cudnnGetRNNDescriptor_v8, algorithm, cell, bias, direction, input, type, compute, math, inputSize, hiddenSize,
       projSize, layers, dropout, flags)
GETTER(cudnnRNNGetClip_v8, clip, clipNan, clipLow, clipHigh)

// ---- tensors and filters

ENTRY(cudnnSetTensor4dDescriptor, BAD_PARAM, descriptor, format, type, n, c, h, w)
{
	const int dims[] = {n, c, h, w};
	return keep(descriptor, format, type, 4, dims);
}

ENTRY(cudnnSetTensorNdDescriptorEx, BAD_PARAM, descriptor, format, type, rank, dims)
{
	REFUSE_IF(!dims, BAD_PARAM);
	return keep(descriptor, format, type, rank, dims);
}

ENTRY(cudnnSetTensorNdDescriptor, BAD_PARAM, descriptor, type, rank, dims, strides)
{
	REFUSE_IF(!descriptor || !elementBytes(type) || rank < 2 || !dims || !strides, BAD_PARAM);
	REFUSE_IF(rank > CUDNN_DIM_MAX, NOT_SUPPORTED);
	Tensor tensor{type, rank, {}, {}};
	std::copy(dims, dims + rank, tensor.dims);
	std::copy(strides, strides + rank, tensor.strides);
	return keep(descriptor, tensor);
}

ENTRY(cudnnSetTensor4dDescriptorEx, BAD_PARAM, descriptor, type, n, c, h, w, nStride, cStride, hStride, wStride)
{
	REFUSE_IF(!descriptor || !elementBytes(type), BAD_PARAM);
	return keep(descriptor, Tensor{type, 4, {n, c, h, w}, {nStride, cStride, hStride, wStride}});
}

ENTRY(cudnnGetTensorNdDescriptor, BAD_PARAM, descriptor, asked, type, rank, dims, strides)
{
	REFUSE_IF(!descriptor, BAD_PARAM);
	const Tensor &tensor = descriptor->tensor;
	give(type, tensor.type, rank, tensor.rank);
	copyOut(tensor.dims, std::min(asked, tensor.rank), dims);
	copyOut(tensor.strides, std::min(asked, tensor.rank), strides);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetTensor4dDescriptor, BAD_PARAM, descriptor, type, n, c, h, w, nStride, cStride, hStride, wStride)
{
	REFUSE_IF(!descriptor, BAD_PARAM);
	const Tensor &t = descriptor->tensor;
	give(type, t.type, n, t.dims[0], c, t.dims[1], h, t.dims[2], w, t.dims[3], nStride, t.strides[0], cStride,
	     t.strides[1], hStride, t.strides[2], wStride, t.strides[3]);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetTensorSizeInBytes, BAD_PARAM, descriptor, size)
{
	REFUSE_IF(!descriptor || !size, BAD_PARAM);
	*size = span(descriptor->tensor, descriptor->isVectorized) * elementBytes(descriptor->tensor.type);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnSetFilterNdDescriptor, BAD_PARAM, descriptor, type, format, rank, dims)
{
	REFUSE_IF(!descriptor || rank < 3 || !dims || type == CUDNN_DATA_INT32 || !isBetween(format, 0, 2), BAD_PARAM);
	REFUSE_IF(rank > CUDNN_DIM_MAX, NOT_SUPPORTED);
	const cudnnStatus_t status = keep(descriptor, format, type, rank, dims);
	if (status == CUDNN_STATUS_SUCCESS)
		descriptor->format = format;
	return status;
}

ENTRY(cudnnSetFilter4dDescriptor, BAD_PARAM, descriptor, type, format, k, c, h, w)
{
	const int dims[] = {k, c, h, w};
	REFUSE_IF(type == CUDNN_DATA_INT32, BAD_PARAM);
	const cudnnStatus_t status = keep(descriptor, format, type, 4, dims);
	if (status == CUDNN_STATUS_SUCCESS)
		descriptor->format = format;
	return status;
}

ENTRY(cudnnGetFilterNdDescriptor, BAD_PARAM, descriptor, asked, type, format, rank, dims)
{
	REFUSE_IF(!descriptor || asked <= 0, BAD_PARAM);
	REFUSE_IF(asked > CUDNN_DIM_MAX, NOT_SUPPORTED);
	const Tensor &tensor = descriptor->tensor;
	give(type, tensor.type, format, descriptor->format, rank, tensor.rank);
	copyOut(tensor.dims, asked, dims);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetFilter4dDescriptor, BAD_PARAM, descriptor, type, format, k, c, h, w)
{
	REFUSE_IF(!descriptor, BAD_PARAM);
	const int64_t *dims = descriptor->tensor.dims;
	give(type, descriptor->tensor.type, format, descriptor->format, k, dims[0], c, dims[1], h, dims[2], w, dims[3]);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetFilterSizeInBytes, BAD_PARAM, descriptor, size)
{
	return ::cudnnGetTensorSizeInBytes(descriptor, size);
}

// ---- convolutions

ENTRY(cudnnSetConvolutionNdDescriptor, BAD_PARAM, descriptor, rank, pad, stride, dilation, mode, compute)
{
	REFUSE_IF(!descriptor || rank < 0 || !pad || !stride || !dilation || !isBetween(mode, 0, 1), BAD_PARAM);
	REFUSE_IF(!isFloating(compute) && compute != CUDNN_DATA_INT32, BAD_PARAM);
	REFUSE_IF(rank > 6, NOT_SUPPORTED);
	for (int i = 0; i < rank; ++i)
		REFUSE_IF(pad[i] < 0 || stride[i] < 1 || dilation[i] < 1, BAD_PARAM);
	const cudnnConvolutionStruct old = *descriptor; // keeps math type, groups and reordering
	*descriptor = {rank, {}, {}, {}, mode, compute, old.math, old.reorder, old.groups};
	std::copy(pad, pad + rank, descriptor->pad);
	std::copy(stride, stride + rank, descriptor->stride);
	std::copy(dilation, dilation + rank, descriptor->dilation);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnSetConvolution2dDescriptor, BAD_PARAM, descriptor, padH, padW, strideH, strideW, dilationH, dilationW, mode,
      compute)
{
	const int pad[] = {padH, padW}, stride[] = {strideH, strideW}, dilation[] = {dilationH, dilationW};
	return ::cudnnSetConvolutionNdDescriptor(descriptor, 2, pad, stride, dilation, mode, compute);
}

ENTRY(cudnnGetConvolutionNdDescriptor, BAD_PARAM, descriptor, asked, rank, pad, stride, dilation, mode, compute)
{
	REFUSE_IF(!descriptor || asked < 0, BAD_PARAM);
	REFUSE_IF(asked > 6, NOT_SUPPORTED);
	give(rank, descriptor->rank, mode, descriptor->mode, compute, descriptor->compute);
	copyOut(descriptor->pad, asked, pad);
	copyOut(descriptor->stride, asked, stride);
	copyOut(descriptor->dilation, asked, dilation);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetConvolution2dDescriptor, BAD_PARAM, descriptor, padH, padW, strideH, strideW, dilationH, dilationW, mode,
      compute)
{
	REFUSE_IF(!descriptor, BAD_PARAM);
	const auto &d = *descriptor;
	give(padH, d.pad[0], padW, d.pad[1], strideH, d.stride[0], strideW, d.stride[1], dilationH, d.dilation[0],
	     dilationW, d.dilation[1], mode, d.mode, compute, d.compute);
	return CUDNN_STATUS_SUCCESS;
}

#define CONVOLUTION_SETTING(name, member, least, most)                                                                 \
	ENTRY(cudnnSetConvolution##name, BAD_PARAM, descriptor, value)                                                     \
	{                                                                                                                  \
		REFUSE_IF(!descriptor || !isBetween(value, least, most), BAD_PARAM);                                           \
		descriptor->member = value;                                                                                    \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}                                                                                                                  \
	ENTRY(cudnnGetConvolution##name, BAD_PARAM, descriptor, value)                                                     \
	{                                                                                                                  \
		REFUSE_IF(!descriptor || !value, BAD_PARAM);                                                                   \
		*value = descriptor->member;                                                                                   \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}
CONVOLUTION_SETTING(MathType, math, 0, 3)
CONVOLUTION_SETTING(GroupCount, groups, 1, INT_MAX)
CONVOLUTION_SETTING(ReorderType, reorder, 0, 1)

ENTRY(cudnnGetConvolutionNdForwardOutputDim, BAD_PARAM, convolution, x, w, asked, dims)
{
	int64_t found[CUDNN_DIM_MAX];
	REFUSE_IF(!convolution || !x || !w || !dims || asked > x->tensor.rank, BAD_PARAM);
	REFUSE_IF(!outputOf(*convolution, x->tensor, w->tensor, found), BAD_PARAM);
	copyOut(found, asked, dims);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetConvolution2dForwardOutputDim, BAD_PARAM, convolution, x, wDesc, n, c, h, w)
{
	int64_t found[CUDNN_DIM_MAX];
	REFUSE_IF(!convolution || !x || !wDesc || x->tensor.rank != 4, BAD_PARAM);
	REFUSE_IF(!outputOf(*convolution, x->tensor, wDesc->tensor, found), BAD_PARAM);
	give(n, found[0], c, found[1], h, found[2], w, found[3]);
	return CUDNN_STATUS_SUCCESS;
}

// ---- layers

ENTRY(cudnnSetPoolingNdDescriptor, BAD_PARAM, descriptor, mode, nan, rank, window, pad, stride)
{
	REFUSE_IF(!descriptor || rank < 1 || !window || !pad || !stride, BAD_PARAM);
	REFUSE_IF(!isBetween(mode, 0, 3) || !isBetween(nan, 0, 1), BAD_PARAM);
	REFUSE_IF(rank > 6, NOT_SUPPORTED);
	for (int i = 0; i < rank; ++i)
		REFUSE_IF(window[i] < 1 || stride[i] < 1, BAD_PARAM);
	*descriptor = {rank, {}, {}, {}, mode, nan};
	std::copy(window, window + rank, descriptor->window);
	std::copy(pad, pad + rank, descriptor->pad);
	std::copy(stride, stride + rank, descriptor->stride);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnSetPooling2dDescriptor, BAD_PARAM, descriptor, mode, nan, windowH, windowW, padH, padW, strideH, strideW)
{
	const int window[] = {windowH, windowW}, pad[] = {padH, padW}, stride[] = {strideH, strideW};
	return ::cudnnSetPoolingNdDescriptor(descriptor, mode, nan, 2, window, pad, stride);
}

ENTRY(cudnnGetPoolingNdDescriptor, BAD_PARAM, descriptor, asked, mode, nan, rank, window, pad, stride)
{
	REFUSE_IF(!descriptor || asked < 0, BAD_PARAM);
	REFUSE_IF(asked > 6, NOT_SUPPORTED);
	give(mode, descriptor->mode, nan, descriptor->nan, rank, descriptor->rank);
	copyOut(descriptor->window, asked, window);
	copyOut(descriptor->pad, asked, pad);
	copyOut(descriptor->stride, asked, stride);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetPooling2dDescriptor, BAD_PARAM, descriptor, mode, nan, windowH, windowW, padH, padW, strideH, strideW)
{
	REFUSE_IF(!descriptor, BAD_PARAM);
	const auto &d = *descriptor;
	give(mode, d.mode, nan, d.nan, windowH, d.window[0], windowW, d.window[1], padH, d.pad[0], padW, d.pad[1], strideH,
	     d.stride[0], strideW, d.stride[1]);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetPoolingNdForwardOutputDim, BAD_PARAM, pooling, x, asked, dims)
{
	int64_t found[CUDNN_DIM_MAX];
	REFUSE_IF(!pooling || !x || !dims || asked != x->tensor.rank || !outputOf(*pooling, x->tensor, found), BAD_PARAM);
	copyOut(found, asked, dims);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetPooling2dForwardOutputDim, BAD_PARAM, pooling, x, n, c, h, w)
{
	int64_t found[CUDNN_DIM_MAX];
	REFUSE_IF(!pooling || !x || x->tensor.rank != 4 || !outputOf(*pooling, x->tensor, found), BAD_PARAM);
	give(n, found[0], c, found[1], h, found[2], w, found[3]);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnSetActivationDescriptor, BAD_PARAM, descriptor, mode, nan, coefficient)
{
	REFUSE_IF(!descriptor || !isBetween(mode, 0, 6) || !isBetween(nan, 0, 1), BAD_PARAM);
	*descriptor = {mode, nan, coefficient, descriptor->swishBeta};
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnSetActivationDescriptorSwishBeta, BAD_PARAM, descriptor, beta)
{
	REFUSE_IF(!descriptor, BAD_PARAM);
	descriptor->swishBeta = beta;
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetActivationDescriptorSwishBeta, BAD_PARAM, descriptor, beta)
{
	REFUSE_IF(!descriptor || !beta, BAD_PARAM);
	*beta = descriptor->swishBeta;
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnSetTensorTransformDescriptor, BAD_PARAM, descriptor, rank, format, before, after, fold, direction)
{
	REFUSE_IF(!descriptor || rank < 2, BAD_PARAM);
	REFUSE_IF(rank > CUDNN_DIM_MAX || static_cast<int>(format) > CUDNN_TENSOR_NCHW_VECT_C, NOT_SUPPORTED);
	*descriptor = {static_cast<int>(rank),
	               format,
	               {},
	               {},
	               {},
	               direction == CUDNN_TRANSFORM_FOLD ? CUDNN_TRANSFORM_FOLD : CUDNN_TRANSFORM_UNFOLD};
	if (before)
		std::copy(before, before + rank, descriptor->before);
	if (after)
		std::copy(after, after + rank, descriptor->after);
	if (fold)
		std::copy(fold, fold + rank - 2, descriptor->fold);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetTensorTransformDescriptor, BAD_PARAM, descriptor, asked, format, before, after, fold, direction)
{
	REFUSE_IF(!descriptor || asked > CUDNN_DIM_MAX, BAD_PARAM);
	const int count = static_cast<int>(asked);
	give(format, descriptor->format, direction, descriptor->direction);
	copyOut(descriptor->before, count, before);
	copyOut(descriptor->after, count, after);
	copyOut(descriptor->fold, count - 2, fold);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnSetSpatialTransformerNdDescriptor, BAD_PARAM, descriptor, sampler, type, rank, dims)
{
	REFUSE_IF(!descriptor || sampler != CUDNN_SAMPLER_BILINEAR || !dims, BAD_PARAM);
	REFUSE_IF(type == CUDNN_DATA_INT8, NOT_SUPPORTED);
	REFUSE_IF(!isFloating(type), BAD_PARAM);
	*descriptor = {type, rank, {}};
	std::copy(dims, dims + std::clamp(rank, 0, 4), descriptor->dims);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnSetCTCLossDescriptorEx, BAD_PARAM, descriptor, compute, mode, gradient)
{
	return keep(descriptor, {compute, mode, gradient, 0});
}

ENTRY(cudnnSetCTCLossDescriptor_v8, BAD_PARAM, descriptor, compute, mode, gradient, maxLabelLength)
{
	return keep(descriptor, {compute, mode, gradient, maxLabelLength});
}

ENTRY(cudnnSetCTCLossDescriptor_v9, BAD_PARAM, descriptor, compute, mode, gradient, maxLabelLength)
{
	return keep(descriptor, {compute, mode, gradient != CUDNN_CTC_ZERO_OOB_GRADIENTS, maxLabelLength});
}

ENTRY(cudnnSetCTCLossDescriptor, BAD_PARAM, descriptor, compute)
{
	return ::cudnnSetCTCLossDescriptorEx(descriptor, compute, CUDNN_LOSS_NORMALIZATION_NONE, CUDNN_NOT_PROPAGATE_NAN);
}

// ---- recurrent networks

ENTRY(cudnnSetRNNDescriptor_v8, BAD_PARAM, descriptor, algorithm, cell, bias, direction, input, type, compute, math,
      inputSize, hiddenSize, projSize, layers, dropout, flags)
{
	REFUSE_IF(!descriptor || !isBetween(algorithm, 0, 3) || !isBetween(cell, 0, 3) || !isBetween(bias, 0, 3),
	          BAD_PARAM);
	REFUSE_IF(!isBetween(direction, 0, 1) || !isBetween(input, 0, 1) || !isBetween(math, 0, 3) || flags > 1, BAD_PARAM);
	REFUSE_IF(inputSize < 1 || hiddenSize < 1 || projSize < 1 || layers < 1, BAD_PARAM);
	const bool isNarrow = type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
	const bool isStandard = algorithm == CUDNN_RNN_ALGO_STANDARD;
	const bool isKnown = (compute == CUDNN_DATA_FLOAT && (isNarrow || type == CUDNN_DATA_FLOAT)) ||
	                     (compute == CUDNN_DATA_HALF && type == compute && isStandard) ||
	                     (compute == CUDNN_DATA_DOUBLE && type == compute &&
	                      (isStandard || algorithm == CUDNN_RNN_ALGO_PERSIST_DYNAMIC));
	REFUSE_IF(!isKnown, NOT_SUPPORTED);
	REFUSE_IF(projSize > hiddenSize || (projSize != hiddenSize && cell != CUDNN_LSTM), NOT_SUPPORTED);
	*descriptor = {algorithm, cell,      bias,       direction, input,  type,    compute,
	               math,      inputSize, hiddenSize, projSize,  layers, dropout, flags};
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnRNNSetClip_v8, BAD_PARAM, descriptor, mode, nan, low, high)
{
	REFUSE_IF(!descriptor || !(low <= high), BAD_PARAM);
	descriptor->clip = mode;
	descriptor->clipNan = nan;
	descriptor->clipLow = low;
	descriptor->clipHigh = high;
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnRNNSetClip_v9, BAD_PARAM, descriptor, mode, low, high)
{
	return ::cudnnRNNSetClip_v8(descriptor, mode, CUDNN_NOT_PROPAGATE_NAN, low, high);
}

ENTRY(cudnnRNNGetClip_v9, BAD_PARAM, descriptor, mode, low, high)
{
	return ::cudnnRNNGetClip_v8(descriptor, mode, nullptr, low, high);
}

ENTRY(cudnnSetRNNDataDescriptor, BAD_PARAM, descriptor, type, layout, maxLength, batch, vector, lengths, fill)
{
	REFUSE_IF(!descriptor || !isBetween(layout, 0, 2) || maxLength < 1 || batch < 1 || vector < 1, BAD_PARAM);
	REFUSE_IF(!lengths || !isBetween(type, 0, 21), BAD_PARAM);
	REFUSE_IF(!isFloating(type) && type != CUDNN_DATA_BFLOAT16, NOT_SUPPORTED);
	const bool isPacked = layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
	for (int i = 0; i < batch; ++i) {
		REFUSE_IF(lengths[i] < isPacked || lengths[i] > maxLength, BAD_PARAM);
		REFUSE_IF(isPacked && i > 0 && lengths[i] > lengths[i - 1], BAD_PARAM);
	}
	REFUSE_IF(isPacked && lengths[0] != maxLength, BAD_PARAM);
	double value = 0;
	if (fill)
		emulated::dnn::load(emulated::dnn::packed(type, 0, nullptr), fill, &value);
	*descriptor = {type, layout, maxLength, batch, vector, {lengths, lengths + batch}, value, fill != nullptr};
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetRNNDataDescriptor, BAD_PARAM, descriptor, type, layout, maxLength, batch, vector, asked, lengths, fill)
{
	REFUSE_IF(!descriptor || !fill, BAD_PARAM);
	const auto &d = *descriptor;
	give(type, d.type, layout, d.layout, maxLength, d.maxLength, batch, d.batch, vector, d.vector);
	for (int i = 0; lengths && i < asked; ++i)
		lengths[i] = i < d.batch ? d.lengths[i] : 0;
	emulated::dnn::store(&d.fill, emulated::dnn::packed(d.type, 0, nullptr), fill);
	return CUDNN_STATUS_SUCCESS;
}

// ---- descriptors derived from others

ENTRY(cudnnDeriveBNTensorDescriptor, BAD_PARAM, derived, x, mode)
{
	REFUSE_IF(!derived || !x || !isBetween(mode, 0, 2), BAD_PARAM);
	const Tensor &from = x->tensor;
	const cudnnDataType_t type = from.type == CUDNN_DATA_DOUBLE ? from.type : CUDNN_DATA_FLOAT;
	int64_t dims[CUDNN_DIM_MAX];
	for (int i = 0; i < from.rank; ++i)
		dims[i] = i == 1 || (i > 0 && mode == CUDNN_BATCHNORM_PER_ACTIVATION) ? from.dims[i] : 1;
	return keep(derived, emulated::dnn::packed(type, from.rank, dims));
}
