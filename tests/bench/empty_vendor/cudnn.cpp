// A libcudnn.so.9 that does nothing, like cublas.cpp: every plan describes one float convolution, and every heuristic
// returns one engine, on tensor cores. All descriptors describe the same convolution.
#include <cudnn.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace {

constexpr char plan[] =
    R"({"cudnnVersion":91900,"schemaVersion":4,"operationGraph":{"finalizeMode":"CONV_FORWARD","tensors":[)"
    R"({"name":"120","dataType":"CUDNN_DATA_FLOAT","dim":[32,64,28,28],"stride":[50176,1,1792,64],"isVirtual":false,)"
    R"("isByValue":false,"vectCount":1,"vectDim":-1,"ptrAlignment":16,"reordering":"CUDNN_TENSOR_REORDERING_NONE"},)"
    R"({"name":"119","dataType":"CUDNN_DATA_FLOAT","dim":[64,64,3,3],"stride":[576,1,192,64],"isVirtual":false,)"
    R"("isByValue":false,"vectCount":1,"vectDim":-1,"ptrAlignment":16,"reordering":"CUDNN_TENSOR_REORDERING_NONE"},)"
    R"({"name":"121","dataType":"CUDNN_DATA_FLOAT","dim":[32,64,28,28],"stride":[50176,1,1792,64],"isVirtual":false,)"
    R"("isByValue":false,"vectCount":1,"vectDim":-1,"ptrAlignment":16,"reordering":"CUDNN_TENSOR_REORDERING_NONE"}],)"
    R"("nodes":[{"operation":"CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR","mode":"CUDNN_CROSS_CORRELATION",)"
    R"("mathPrec":"CUDNN_DATA_FLOAT","alpha":1.0,"beta":0.0,"pad":[1,1],"stride":[1,1],"dilation":[1,1],"X":"120",)"
    R"("W":"119","Y":"121"}]}})";
int places[64], next;

} // namespace

extern "C" {
cudnnStatus_t cudnnGetStream(cudnnHandle_t, cudaStream_t *stream)
{
	*stream = nullptr;
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor)
{
	static int plans;
	*descriptor = type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ? &plans : &places[next++ % std::size(places)];
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t)
{
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t)
{
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, int64_t, const void *)
{
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t wanted, int64_t *count, void *values)
{
	const bool isText = name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
	*count = isText ? sizeof plan : name != CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE;
	if (isText && wanted)
		std::memcpy(values, plan, sizeof plan);
	else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
		*static_cast<cudnnBackendNumericalNote_t *>(values) = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t)
{
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetTensorNdDescriptor(cudnnTensorDescriptor_t, int, cudnnDataType_t *type, int *rank, int dims[],
                                         int strides[])
{
	static constexpr int extents[] = {32, 64, 28, 28}, apart[] = {50176, 1, 1792, 64};
	*type = CUDNN_DATA_FLOAT, *rank = 4;
	std::copy_n(extents, 4, dims);
	std::copy_n(apart, 4, strides);
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetFilterNdDescriptor(cudnnFilterDescriptor_t, int, cudnnDataType_t *type,
                                         cudnnTensorFormat_t *format, int *rank, int dims[])
{
	static constexpr int extents[] = {64, 64, 3, 3};
	*type = CUDNN_DATA_FLOAT, *format = CUDNN_TENSOR_NHWC, *rank = 4;
	std::copy_n(extents, 4, dims);
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t, int, int *spatial, int pads[],
                                              int strides[], int dilations[], cudnnConvolutionMode_t *mode,
                                              cudnnDataType_t *compute)
{
	*spatial = 2, *mode = CUDNN_CROSS_CORRELATION, *compute = CUDNN_DATA_FLOAT;
	for (int i = 0; i < 2; i++)
		pads[i] = strides[i] = dilations[i] = 1;
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t, cudnnMathType_t *type)
{
	*type = CUDNN_DEFAULT_MATH;
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t, int *groups)
{
	*groups = 1;
	return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t, const void *, const cudnnTensorDescriptor_t, const void *,
                                      const cudnnFilterDescriptor_t, const void *, const cudnnConvolutionDescriptor_t,
                                      cudnnConvolutionFwdAlgo_t, void *, size_t, const void *,
                                      const cudnnTensorDescriptor_t, void *)
{
	return CUDNN_STATUS_SUCCESS;
}
size_t cudnnGetVersion()
{
	return 91900;
}
cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, const cudnnTensorDescriptor_t,
                                                      const cudnnFilterDescriptor_t, const cudnnConvolutionDescriptor_t,
                                                      const cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgo_t,
                                                      size_t *bytes)
{
	*bytes = 0;
	return CUDNN_STATUS_SUCCESS;
}
// Functions that autoamp looks up; convolution calls do not use them.
#define UNUSED(name)                                                                                                   \
	cudnnStatus_t un##name() __asm__(#name);                                                                           \
	cudnnStatus_t un##name()                                                                                           \
	{                                                                                                                  \
		return CUDNN_STATUS_NOT_SUPPORTED;                                                                             \
	}
UNUSED(cudnnGetActivationDescriptor)
UNUSED(cudnnGetPoolingNdDescriptor)
UNUSED(cudnnGetReduceTensorDescriptor)
UNUSED(cudnnGetOpTensorDescriptor)
UNUSED(cudnnCreateConvolutionDescriptor)
UNUSED(cudnnDestroyConvolutionDescriptor)
UNUSED(cudnnSetConvolutionNdDescriptor)
UNUSED(cudnnSetConvolutionGroupCount)
UNUSED(cudnnSetConvolutionMathType)
UNUSED(cudnnGetConvolutionBackwardDataWorkspaceSize)
UNUSED(cudnnGetConvolutionBackwardFilterWorkspaceSize)
}
