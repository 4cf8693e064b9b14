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

extern "C" {

#define LIFE(kind)                                                                                                     \
	cudnnStatus_t cudnnCreate##kind##Descriptor(cudnn##kind##Descriptor_t *made)                                       \
	{                                                                                                                  \
		FAIL_AS(ALLOC_FAILED);                                                                                         \
		REFUSE_IF(!made, BAD_PARAM);                                                                                   \
		*made = new cudnn##kind##Struct;                                                                               \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}                                                                                                                  \
	cudnnStatus_t cudnnDestroy##kind##Descriptor(cudnn##kind##Descriptor_t descriptor)                                 \
	{                                                                                                                  \
		FAIL_AS(BAD_PARAM);                                                                                            \
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

// ---- tensors and filters

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w)
{
	FAIL_AS(BAD_PARAM);
	const int dims[] = {n, c, h, w};
	return keep(descriptor, format, type, 4, dims);
}

cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t descriptor, cudnnTensorFormat_t format,
                                           cudnnDataType_t type, int rank, const int dims[])
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!dims, BAD_PARAM);
	return keep(descriptor, format, type, rank, dims);
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type, int rank,
                                         const int dims[], const int strides[])
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || !elementBytes(type) || rank < 2 || !dims || !strides, BAD_PARAM);
	REFUSE_IF(rank > CUDNN_DIM_MAX, NOT_SUPPORTED);
	Tensor tensor{type, rank, {}, {}};
	std::copy(dims, dims + rank, tensor.dims);
	std::copy(strides, strides + rank, tensor.strides);
	return keep(descriptor, tensor);
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t descriptor, cudnnDataType_t type, int n, int c,
                                           int h, int w, int nStride, int cStride, int hStride, int wStride)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || !elementBytes(type), BAD_PARAM);
	return keep(descriptor, Tensor{type, 4, {n, c, h, w}, {nStride, cStride, hStride, wStride}});
}

cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t descriptor, int asked, cudnnDataType_t *type,
                                         int *rank, int dims[], int strides[])
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	const Tensor &tensor = descriptor->tensor;
	give(type, tensor.type, rank, tensor.rank);
	copyOut(tensor.dims, std::min(asked, tensor.rank), dims);
	copyOut(tensor.strides, std::min(asked, tensor.rank), strides);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensor4dDescriptor(const cudnnTensorDescriptor_t descriptor, cudnnDataType_t *type, int *n,
                                         int *c, int *h, int *w, int *nStride, int *cStride, int *hStride, int *wStride)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	const Tensor &t = descriptor->tensor;
	give(type, t.type, n, t.dims[0], c, t.dims[1], h, t.dims[2], w, t.dims[3], nStride, t.strides[0], cStride,
	     t.strides[1], hStride, t.strides[2], wStride, t.strides[3]);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t descriptor, size_t *size)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || !size, BAD_PARAM);
	*size = span(descriptor->tensor, descriptor->isVectorized) * elementBytes(descriptor->tensor.type);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int rank, const int dims[])
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || rank < 3 || !dims || type == CUDNN_DATA_INT32 || !isBetween(format, 0, 2), BAD_PARAM);
	REFUSE_IF(rank > CUDNN_DIM_MAX, NOT_SUPPORTED);
	const cudnnStatus_t status = keep(descriptor, format, type, rank, dims);
	if (status == CUDNN_STATUS_SUCCESS)
		descriptor->format = format;
	return status;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t descriptor, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w)
{
	FAIL_AS(BAD_PARAM);
	const int dims[] = {k, c, h, w};
	REFUSE_IF(type == CUDNN_DATA_INT32, BAD_PARAM);
	const cudnnStatus_t status = keep(descriptor, format, type, 4, dims);
	if (status == CUDNN_STATUS_SUCCESS)
		descriptor->format = format;
	return status;
}

cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t descriptor, int asked, cudnnDataType_t *type,
                                         cudnnTensorFormat_t *format, int *rank, int dims[])
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || asked <= 0, BAD_PARAM);
	REFUSE_IF(asked > CUDNN_DIM_MAX, NOT_SUPPORTED);
	const Tensor &tensor = descriptor->tensor;
	give(type, tensor.type, format, descriptor->format, rank, tensor.rank);
	copyOut(tensor.dims, asked, dims);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetFilter4dDescriptor(const cudnnFilterDescriptor_t descriptor, cudnnDataType_t *type,
                                         cudnnTensorFormat_t *format, int *k, int *c, int *h, int *w)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	const int64_t *dims = descriptor->tensor.dims;
	give(type, descriptor->tensor.type, format, descriptor->format, k, dims[0], c, dims[1], h, dims[2], w, dims[3]);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetFilterSizeInBytes(const cudnnFilterDescriptor_t descriptor, size_t *size)
{
	FAIL_AS(BAD_PARAM);
	return cudnnGetTensorSizeInBytes(descriptor, size);
}

// ---- convolutions

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t descriptor, int rank, const int pad[],
                                              const int stride[], const int dilation[], cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute)
{
	FAIL_AS(BAD_PARAM);
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

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t descriptor, int padH, int padW, int strideH,
                                              int strideW, int dilationH, int dilationW, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute)
{
	const int pad[] = {padH, padW}, stride[] = {strideH, strideW}, dilation[] = {dilationH, dilationW};
	FAIL_AS(BAD_PARAM);
	return cudnnSetConvolutionNdDescriptor(descriptor, 2, pad, stride, dilation, mode, compute);
}

cudnnStatus_t cudnnGetConvolutionNdDescriptor(const cudnnConvolutionDescriptor_t descriptor, int asked, int *rank,
                                              int pad[], int stride[], int dilation[], cudnnConvolutionMode_t *mode,
                                              cudnnDataType_t *compute)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || asked < 0, BAD_PARAM);
	REFUSE_IF(asked > 6, NOT_SUPPORTED);
	give(rank, descriptor->rank, mode, descriptor->mode, compute, descriptor->compute);
	copyOut(descriptor->pad, asked, pad);
	copyOut(descriptor->stride, asked, stride);
	copyOut(descriptor->dilation, asked, dilation);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dDescriptor(const cudnnConvolutionDescriptor_t descriptor, int *padH, int *padW,
                                              int *strideH, int *strideW, int *dilationH, int *dilationW,
                                              cudnnConvolutionMode_t *mode, cudnnDataType_t *compute)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	const auto &d = *descriptor;
	give(padH, d.pad[0], padW, d.pad[1], strideH, d.stride[0], strideW, d.stride[1], dilationH, d.dilation[0],
	     dilationW, d.dilation[1], mode, d.mode, compute, d.compute);
	return CUDNN_STATUS_SUCCESS;
}

#define CONVOLUTION_SETTING(name, type, member, least, most)                                                           \
	cudnnStatus_t cudnnSetConvolution##name(cudnnConvolutionDescriptor_t descriptor, type value)                       \
	{                                                                                                                  \
		FAIL_AS(BAD_PARAM);                                                                                            \
		REFUSE_IF(!descriptor || !isBetween(value, least, most), BAD_PARAM);                                           \
		descriptor->member = value;                                                                                    \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}                                                                                                                  \
	cudnnStatus_t cudnnGetConvolution##name(cudnnConvolutionDescriptor_t descriptor, type *value)                      \
	{                                                                                                                  \
		FAIL_AS(BAD_PARAM);                                                                                            \
		REFUSE_IF(!descriptor || !value, BAD_PARAM);                                                                   \
		*value = descriptor->member;                                                                                   \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}
CONVOLUTION_SETTING(MathType, cudnnMathType_t, math, 0, 3)
CONVOLUTION_SETTING(GroupCount, int, groups, 1, INT_MAX)
CONVOLUTION_SETTING(ReorderType, cudnnReorderType_t, reorder, 0, 1)

cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(const cudnnConvolutionDescriptor_t convolution,
                                                    const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
                                                    int asked, int dims[])
{
	FAIL_AS(BAD_PARAM);
	int64_t found[CUDNN_DIM_MAX];
	REFUSE_IF(!convolution || !x || !w || !dims || asked > x->tensor.rank, BAD_PARAM);
	REFUSE_IF(!outputOf(*convolution, x->tensor, w->tensor, found), BAD_PARAM);
	copyOut(found, asked, dims);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(const cudnnConvolutionDescriptor_t convolution,
                                                    const cudnnTensorDescriptor_t x,
                                                    const cudnnFilterDescriptor_t wDesc, int *n, int *c, int *h, int *w)
{
	FAIL_AS(BAD_PARAM);
	int64_t found[CUDNN_DIM_MAX];
	REFUSE_IF(!convolution || !x || !wDesc || x->tensor.rank != 4, BAD_PARAM);
	REFUSE_IF(!outputOf(*convolution, x->tensor, wDesc->tensor, found), BAD_PARAM);
	give(n, found[0], c, found[1], h, found[2], w, found[3]);
	return CUDNN_STATUS_SUCCESS;
}

// ---- layers

cudnnStatus_t cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t descriptor, const cudnnPoolingMode_t mode,
                                          const cudnnNanPropagation_t nan, int rank, const int window[],
                                          const int pad[], const int stride[])
{
	FAIL_AS(BAD_PARAM);
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

cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t descriptor, cudnnPoolingMode_t mode,
                                          cudnnNanPropagation_t nan, int windowH, int windowW, int padH, int padW,
                                          int strideH, int strideW)
{
	FAIL_AS(BAD_PARAM);
	const int window[] = {windowH, windowW}, pad[] = {padH, padW}, stride[] = {strideH, strideW};
	return cudnnSetPoolingNdDescriptor(descriptor, mode, nan, 2, window, pad, stride);
}

cudnnStatus_t cudnnGetPoolingNdDescriptor(const cudnnPoolingDescriptor_t descriptor, int asked,
                                          cudnnPoolingMode_t *mode, cudnnNanPropagation_t *nan, int *rank, int window[],
                                          int pad[], int stride[])
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || asked < 0, BAD_PARAM);
	REFUSE_IF(asked > 6, NOT_SUPPORTED);
	give(mode, descriptor->mode, nan, descriptor->nan, rank, descriptor->rank);
	copyOut(descriptor->window, asked, window);
	copyOut(descriptor->pad, asked, pad);
	copyOut(descriptor->stride, asked, stride);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetPooling2dDescriptor(const cudnnPoolingDescriptor_t descriptor, cudnnPoolingMode_t *mode,
                                          cudnnNanPropagation_t *nan, int *windowH, int *windowW, int *padH, int *padW,
                                          int *strideH, int *strideW)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	const auto &d = *descriptor;
	give(mode, d.mode, nan, d.nan, windowH, d.window[0], windowW, d.window[1], padH, d.pad[0], padW, d.pad[1], strideH,
	     d.stride[0], strideW, d.stride[1]);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetPoolingNdForwardOutputDim(const cudnnPoolingDescriptor_t pooling, const cudnnTensorDescriptor_t x,
                                                int asked, int dims[])
{
	FAIL_AS(BAD_PARAM);
	int64_t found[CUDNN_DIM_MAX];
	REFUSE_IF(!pooling || !x || !dims || asked != x->tensor.rank || !outputOf(*pooling, x->tensor, found), BAD_PARAM);
	copyOut(found, asked, dims);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetPooling2dForwardOutputDim(const cudnnPoolingDescriptor_t pooling, const cudnnTensorDescriptor_t x,
                                                int *n, int *c, int *h, int *w)
{
	FAIL_AS(BAD_PARAM);
	int64_t found[CUDNN_DIM_MAX];
	REFUSE_IF(!pooling || !x || x->tensor.rank != 4 || !outputOf(*pooling, x->tensor, found), BAD_PARAM);
	give(n, found[0], c, found[1], h, found[2], w, found[3]);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t descriptor, cudnnActivationMode_t mode,
                                           cudnnNanPropagation_t nan, double coefficient)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || !isBetween(mode, 0, 6) || !isBetween(nan, 0, 1), BAD_PARAM);
	*descriptor = {mode, nan, coefficient, descriptor->swishBeta};
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetActivationDescriptor(const cudnnActivationDescriptor_t descriptor, cudnnActivationMode_t *mode,
                                           cudnnNanPropagation_t *nan, double *coefficient)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	give(mode, descriptor->mode, nan, descriptor->nan, coefficient, descriptor->coefficient);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetActivationDescriptorSwishBeta(cudnnActivationDescriptor_t descriptor, double beta)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	descriptor->swishBeta = beta;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetActivationDescriptorSwishBeta(cudnnActivationDescriptor_t descriptor, double *beta)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || !beta, BAD_PARAM);
	*beta = descriptor->swishBeta;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetLRNDescriptor(cudnnLRNDescriptor_t descriptor, unsigned n, double alpha, double beta, double k)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || n < CUDNN_LRN_MIN_N || n > CUDNN_LRN_MAX_N, BAD_PARAM);
	REFUSE_IF(beta < CUDNN_LRN_MIN_BETA || k < CUDNN_LRN_MIN_K, BAD_PARAM);
	*descriptor = {n, alpha, beta, k};
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetLRNDescriptor(cudnnLRNDescriptor_t descriptor, unsigned *n, double *alpha, double *beta,
                                    double *k)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	give(n, descriptor->n, alpha, descriptor->alpha, beta, descriptor->beta, k, descriptor->k);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t descriptor, cudnnOpTensorOp_t op,
                                         cudnnDataType_t compute, cudnnNanPropagation_t nan)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || !isBetween(op, 0, 5) || !isBetween(nan, 0, 1), BAD_PARAM);
	REFUSE_IF(!isFloating(compute) && compute != CUDNN_DATA_BFLOAT16, BAD_PARAM);
	*descriptor = {op, compute, nan};
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetOpTensorDescriptor(const cudnnOpTensorDescriptor_t descriptor, cudnnOpTensorOp_t *op,
                                         cudnnDataType_t *compute, cudnnNanPropagation_t *nan)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	give(op, descriptor->op, compute, descriptor->compute, nan, descriptor->nan);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetReduceTensorDescriptor(cudnnReduceTensorDescriptor_t descriptor, cudnnReduceTensorOp_t op,
                                             cudnnDataType_t compute, cudnnNanPropagation_t nan,
                                             cudnnReduceTensorIndices_t indices, cudnnIndicesType_t indicesType)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || !isBetween(op, 0, 8) || !isFloating(compute) || !isBetween(nan, 0, 1), BAD_PARAM);
	REFUSE_IF(!isBetween(indices, 0, 1) || !isBetween(indicesType, 0, 3), BAD_PARAM);
	*descriptor = {op, compute, nan, indices, indicesType};
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetReduceTensorDescriptor(const cudnnReduceTensorDescriptor_t descriptor, cudnnReduceTensorOp_t *op,
                                             cudnnDataType_t *compute, cudnnNanPropagation_t *nan,
                                             cudnnReduceTensorIndices_t *indices, cudnnIndicesType_t *indicesType)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	give(op, descriptor->op, compute, descriptor->compute, nan, descriptor->nan, indices, descriptor->indices,
	     indicesType, descriptor->indicesType);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensorTransformDescriptor(cudnnTensorTransformDescriptor_t descriptor, const uint32_t rank,
                                                const cudnnTensorFormat_t format, const int32_t before[],
                                                const int32_t after[], const uint32_t fold[],
                                                const cudnnFoldingDirection_t direction)
{
	FAIL_AS(BAD_PARAM);
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

cudnnStatus_t cudnnGetTensorTransformDescriptor(cudnnTensorTransformDescriptor_t descriptor, uint32_t asked,
                                                cudnnTensorFormat_t *format, int32_t before[], int32_t after[],
                                                uint32_t fold[], cudnnFoldingDirection_t *direction)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || asked > CUDNN_DIM_MAX, BAD_PARAM);
	const int count = static_cast<int>(asked);
	give(format, descriptor->format, direction, descriptor->direction);
	copyOut(descriptor->before, count, before);
	copyOut(descriptor->after, count, after);
	copyOut(descriptor->fold, count - 2, fold);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetSpatialTransformerNdDescriptor(cudnnSpatialTransformerDescriptor_t descriptor,
                                                     cudnnSamplerType_t sampler, cudnnDataType_t type, const int rank,
                                                     const int dims[])
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || sampler != CUDNN_SAMPLER_BILINEAR || !dims, BAD_PARAM);
	REFUSE_IF(type == CUDNN_DATA_INT8, NOT_SUPPORTED);
	REFUSE_IF(!isFloating(type), BAD_PARAM);
	*descriptor = {type, rank, {}};
	std::copy(dims, dims + std::clamp(rank, 0, 4), descriptor->dims);
	return CUDNN_STATUS_SUCCESS;
}

#define CTC_SETTER(name, gradientType, lengthParameter, gradientMode, length)                                          \
	cudnnStatus_t cudnnSetCTCLossDescriptor##name(cudnnCTCLossDescriptor_t descriptor, cudnnDataType_t compute,        \
	                                              cudnnLossNormalizationMode_t mode,                                   \
	                                              gradientType gradient lengthParameter)                               \
	{                                                                                                                  \
		FAIL_AS(BAD_PARAM);                                                                                            \
		REFUSE_IF(!descriptor, BAD_PARAM);                                                                             \
		REFUSE_IF(compute != CUDNN_DATA_FLOAT && compute != CUDNN_DATA_DOUBLE, NOT_SUPPORTED);                         \
		*descriptor = {compute, mode, gradientMode, length};                                                           \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}
#define WITH_LENGTH , int maxLabelLength
CTC_SETTER(Ex, cudnnNanPropagation_t, , gradient, 0)
CTC_SETTER(_v8, cudnnNanPropagation_t, WITH_LENGTH, gradient, maxLabelLength)
CTC_SETTER(_v9, cudnnCTCGradMode_t, WITH_LENGTH, gradient != CUDNN_CTC_ZERO_OOB_GRADIENTS, maxLabelLength)

cudnnStatus_t cudnnSetCTCLossDescriptor(cudnnCTCLossDescriptor_t descriptor, cudnnDataType_t compute)
{
	FAIL_AS(BAD_PARAM);
	return cudnnSetCTCLossDescriptorEx(descriptor, compute, CUDNN_LOSS_NORMALIZATION_NONE, CUDNN_NOT_PROPAGATE_NAN);
}

cudnnStatus_t cudnnGetCTCLossDescriptor(cudnnCTCLossDescriptor_t descriptor, cudnnDataType_t *compute)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	give(compute, descriptor->compute);
	return CUDNN_STATUS_SUCCESS;
}

#define CTC_GETTER(name, gradientType, lengthParameter, ...)                                                           \
	cudnnStatus_t cudnnGetCTCLossDescriptor##name(cudnnCTCLossDescriptor_t descriptor, cudnnDataType_t *compute,       \
	                                              cudnnLossNormalizationMode_t *mode,                                  \
	                                              gradientType *gradient lengthParameter)                              \
	{                                                                                                                  \
		FAIL_AS(BAD_PARAM);                                                                                            \
		REFUSE_IF(!descriptor, BAD_PARAM);                                                                             \
		give(compute, descriptor->compute, mode, descriptor->normalization, gradient,                                  \
		     descriptor->gradient __VA_OPT__(, ) __VA_ARGS__);                                                         \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}
#define GIVE_LENGTH , int *maxLabelLength
CTC_GETTER(Ex, cudnnNanPropagation_t, )
CTC_GETTER(_v8, cudnnNanPropagation_t, GIVE_LENGTH, maxLabelLength, descriptor->maxLabelLength)
CTC_GETTER(_v9, cudnnCTCGradMode_t, GIVE_LENGTH, maxLabelLength, descriptor->maxLabelLength)

// ---- recurrent networks

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t descriptor, cudnnRNNAlgo_t algorithm, cudnnRNNMode_t cell,
                                       cudnnRNNBiasMode_t bias, cudnnDirectionMode_t direction,
                                       cudnnRNNInputMode_t input, cudnnDataType_t type, cudnnDataType_t compute,
                                       cudnnMathType_t math, int32_t inputSize, int32_t hiddenSize, int32_t projSize,
                                       int32_t layers, cudnnDropoutDescriptor_t dropout, uint32_t flags)
{
	FAIL_AS(BAD_PARAM);
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

cudnnStatus_t cudnnGetRNNDescriptor_v8(cudnnRNNDescriptor_t descriptor, cudnnRNNAlgo_t *algorithm, cudnnRNNMode_t *cell,
                                       cudnnRNNBiasMode_t *bias, cudnnDirectionMode_t *direction,
                                       cudnnRNNInputMode_t *input, cudnnDataType_t *type, cudnnDataType_t *compute,
                                       cudnnMathType_t *math, int32_t *inputSize, int32_t *hiddenSize,
                                       int32_t *projSize, int32_t *layers, cudnnDropoutDescriptor_t *dropout,
                                       uint32_t *flags)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	const auto &d = *descriptor;
	give(algorithm, d.algorithm, cell, d.cell, bias, d.bias, direction, d.direction, input, d.input, type, d.type,
	     compute, d.compute, math, d.math, inputSize, d.inputSize, hiddenSize, d.hiddenSize, projSize, d.projSize,
	     layers, d.layers, dropout, d.dropout, flags, d.flags);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNSetClip_v8(cudnnRNNDescriptor_t descriptor, cudnnRNNClipMode_t mode, cudnnNanPropagation_t nan,
                                 double low, double high)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || !(low <= high), BAD_PARAM);
	descriptor->clip = mode;
	descriptor->clipNan = nan;
	descriptor->clipLow = low;
	descriptor->clipHigh = high;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNSetClip_v9(cudnnRNNDescriptor_t descriptor, cudnnRNNClipMode_t mode, double low, double high)
{
	FAIL_AS(BAD_PARAM);
	return cudnnRNNSetClip_v8(descriptor, mode, CUDNN_NOT_PROPAGATE_NAN, low, high);
}

cudnnStatus_t cudnnRNNGetClip_v8(cudnnRNNDescriptor_t descriptor, cudnnRNNClipMode_t *mode, cudnnNanPropagation_t *nan,
                                 double *low, double *high)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor, BAD_PARAM);
	give(mode, descriptor->clip, nan, descriptor->clipNan, low, descriptor->clipLow, high, descriptor->clipHigh);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNGetClip_v9(cudnnRNNDescriptor_t descriptor, cudnnRNNClipMode_t *mode, double *low, double *high)
{
	FAIL_AS(BAD_PARAM);
	return cudnnRNNGetClip_v8(descriptor, mode, nullptr, low, high);
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int maxLength, int batch, int vector,
                                        const int lengths[], void *fill)
{
	FAIL_AS(BAD_PARAM);
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

cudnnStatus_t cudnnGetRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor, cudnnDataType_t *type,
                                        cudnnRNNDataLayout_t *layout, int *maxLength, int *batch, int *vector,
                                        int asked, int lengths[], void *fill)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || !fill, BAD_PARAM);
	const auto &d = *descriptor;
	give(type, d.type, layout, d.layout, maxLength, d.maxLength, batch, d.batch, vector, d.vector);
	for (int i = 0; lengths && i < asked; ++i)
		lengths[i] = i < d.batch ? d.lengths[i] : 0;
	emulated::dnn::store(&d.fill, emulated::dnn::packed(d.type, 0, nullptr), fill);
	return CUDNN_STATUS_SUCCESS;
}

// ---- descriptors derived from others

cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derived, const cudnnTensorDescriptor_t x,
                                            cudnnBatchNormMode_t mode)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!derived || !x || !isBetween(mode, 0, 2), BAD_PARAM);
	const Tensor &from = x->tensor;
	const cudnnDataType_t type = from.type == CUDNN_DATA_DOUBLE ? from.type : CUDNN_DATA_FLOAT;
	int64_t dims[CUDNN_DIM_MAX];
	for (int i = 0; i < from.rank; ++i)
		dims[i] = i == 1 || (i > 0 && mode == CUDNN_BATCHNORM_PER_ACTIVATION) ? from.dims[i] : 1;
	return keep(derived, emulated::dnn::packed(type, from.rank, dims));
}

} // extern "C"
