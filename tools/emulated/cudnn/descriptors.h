// The contents of legacy descriptors. Any thread; the user of a descriptor must guard it. Entry points copy the
// required contents before they return.
#pragma once

#include "tools/emulated/cudnn/dnn/convolution.h"
#include "tools/emulated/cudnn/handle.h"

struct cudnnTensorStruct {
	emulated::dnn::Tensor tensor;
	bool isVectorized = false; // CUDNN_TENSOR_NCHW_VECT_C: supported in descriptors, but in no computation
};

struct cudnnFilterStruct : cudnnTensorStruct {
	cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
};

struct cudnnConvolutionStruct {
	int rank = 0, pad[6] = {}, stride[6] = {}, dilation[6] = {};
	cudnnConvolutionMode_t mode = CUDNN_CONVOLUTION;
	cudnnDataType_t compute = CUDNN_DATA_FLOAT;
	cudnnMathType_t math = CUDNN_DEFAULT_MATH;
	cudnnReorderType_t reorder = CUDNN_DEFAULT_REORDER;
	int groups = 1;

	emulated::dnn::Convolution geometry() const;
};

struct cudnnPoolingStruct {
	int rank = 0, window[6] = {}, pad[6] = {}, stride[6] = {};
	cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
	cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
};

struct cudnnActivationStruct {
	cudnnActivationMode_t mode = CUDNN_ACTIVATION_SIGMOID;
	cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
	double coefficient = 0, swishBeta = 1;
};

struct cudnnLRNStruct {
	unsigned n = 5;
	double alpha = 1e-4, beta = .75, k = 2;
};

struct cudnnOpTensorStruct {
	cudnnOpTensorOp_t op = CUDNN_OP_TENSOR_ADD;
	cudnnDataType_t compute = CUDNN_DATA_FLOAT;
	cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
};

struct cudnnReduceTensorStruct {
	cudnnReduceTensorOp_t op = CUDNN_REDUCE_TENSOR_ADD;
	cudnnDataType_t compute = CUDNN_DATA_FLOAT;
	cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
	cudnnReduceTensorIndices_t indices = CUDNN_REDUCE_TENSOR_NO_INDICES;
	cudnnIndicesType_t indicesType = CUDNN_32BIT_INDICES;
};

struct cudnnTensorTransformStruct {
	int rank = 0;
	cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
	int before[8] = {}, after[8] = {};
	unsigned fold[6] = {};
	cudnnFoldingDirection_t direction = CUDNN_TRANSFORM_FOLD;
};

struct cudnnDropoutStruct {
	float probability = 0;
	void *states = nullptr;
	unsigned long long seed = 0;
};

struct cudnnCTCLossStruct {
	cudnnDataType_t compute = CUDNN_DATA_FLOAT;
	cudnnLossNormalizationMode_t normalization = CUDNN_LOSS_NORMALIZATION_NONE;
	int gradient = 0, maxLabelLength = 0;
};

struct cudnnSpatialTransformerStruct {
	cudnnDataType_t type = CUDNN_DATA_FLOAT;
	int rank = 0, dims[4] = {};
};

struct cudnnRNNStruct {
	cudnnRNNAlgo_t algorithm = CUDNN_RNN_ALGO_STANDARD;
	cudnnRNNMode_t cell = CUDNN_RNN_RELU;
	cudnnRNNBiasMode_t bias = CUDNN_RNN_NO_BIAS;
	cudnnDirectionMode_t direction = CUDNN_UNIDIRECTIONAL;
	cudnnRNNInputMode_t input = CUDNN_LINEAR_INPUT;
	cudnnDataType_t type = CUDNN_DATA_FLOAT, compute = CUDNN_DATA_FLOAT;
	cudnnMathType_t math = CUDNN_DEFAULT_MATH;
	int inputSize = 0, hiddenSize = 0, projSize = 0, layers = 0;
	cudnnDropoutDescriptor_t dropout = nullptr;
	unsigned flags = 0;
	cudnnRNNClipMode_t clip = CUDNN_RNN_CLIP_NONE;
	cudnnNanPropagation_t clipNan = CUDNN_NOT_PROPAGATE_NAN;
	double clipLow = 0, clipHigh = 0;
};

struct cudnnRNNDataStruct {
	cudnnDataType_t type = CUDNN_DATA_FLOAT;
	cudnnRNNDataLayout_t layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
	int maxLength = 0, batch = 0, vector = 0;
	std::vector<int> lengths;
	double fill = 0; // value at the padding of an output
	bool hasFill = false;
};

namespace emulated::cudnn {

// Bytes of an element, or of a vector of INT8x4 and INT8x32; 0: not a type of legacy descriptors.
size_t elementBytes(cudnnDataType_t type);

// Writes the extents of the result of a convolution or pooling into `dims`; false: the arguments do not match.
bool outputOf(const cudnnConvolutionStruct &convolution, const Tensor &x, const Tensor &w, int64_t *dims);
bool outputOf(const cudnnPoolingStruct &pooling, const Tensor &x, int64_t *dims);

// The results of a getter: pairs of an address, which may be null, and a value.
inline void give() {}
template <typename T, typename Value, typename... Rest>
void give(T *place, Value value, Rest... rest)
{
	if (place)
		*place = static_cast<T>(value);
	give(rest...);
}

} // namespace emulated::cudnn
