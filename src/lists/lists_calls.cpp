// The ops as library calls. The lists of a framework do not settle the following points; each has its source (lists:
// torch aten/src/ATen/autocast_mode.h; Paddle python/paddle/amp/amp_lists.py; MindSpore train/amp.py):
// - A backward call takes the category of its forward: cudnnConvolutionBackward*, also the bias gradient,
//   cudnnRNNBackward*, ... [torch docs/source/amp.md: backward ops run in the type of their forward; Paddle
//   imperative/amp_utils.h traces the casts; MindSpore train/amp.py casts a Cell's inputs and outputs]
// - Batched products under Paddle are matmul_v2, not the unlisted bmm. [amp_lists.py has only matmul_v2 and einsum;
//   paddle.matmul and einsum issue the same call]
// - cublasSgemv under Paddle is mv, unlisted. [amp_lists.py has no mv; matmul_v2 with a vector is the rarer caller]
// - cudnnConvolution* is conv2d, the usual op. 5-D tensors are conv3d, and groups = channels is Paddle's
//   depthwise_conv2d, both unlisted there. [amp_lists.py: only conv2d] cudnnConvolutionBackwardData is the backward of
//   conv2d rather than the forward of conv_transpose: both are lowered, except Paddle's unlisted conv2d_transpose. [the
//   same]
// - A sum in MindSpore is SumExt (Tensor.sum and mint.sum), not the unlisted Primitive ReduceSum. [train/amp.py,
//   AMP_AUTO_BLACK_LIST]
// - MindSpore's O2 lists the Cells BatchNorm1d to 3d; auto lists the Primitive inside them, BatchNorm. [train/amp.py,
//   get_black_list() and AMP_AUTO_BLACK_LIST]
// - Attention under Paddle is flash_attn (both types), not fused_attention. [amp_lists.py: the latter for float16 only]
// - The epilogues of cublasLtMatmul run in fp32 with the product: the category of the product decides. [cuBLAS manual,
//   cublasLtEpilogue_t; torch aten/src/ATen/cuda/CUDABlas.cpp: linear with bias and activation is one such call]
// - cudnnBackendExecute runs a graph of nodes, and each node is an op; by default it is the convolution. [torch
//   aten/src/ATen/native/cudnn/Conv_v8.cpp issues its convolutions this way]
// - cublasSsymv and similar calls are reported as mv. Other structured BLAS (syrk, symm, trmm, ...), copies, transforms
//   and 64-bit, complex, integer and FP8 data are not in the lists of any framework: unlisted. [none of the three has
//   the name]
#include "src/lists/lists.h"

namespace autoamp::policy {

namespace {

#define CONVOLUTION                                                                                                    \
	"cudnnConvolutionForward cudnnConvolutionBackwardData cudnnConvolutionBackwardFilter "                             \
	"cudnnConvolutionBackwardBias cudnnConvolutionBiasActivationForward cudnnFusedOpsExecute cudnnBackendExecute"
#define BACKEND "cudnnBackendExecute"
#define SOFTMAX "cudnnSoftmaxForward cudnnSoftmaxBackward"
#define ACTIVATION "cudnnActivationForward cudnnActivationBackward " BACKEND
#define REDUCTION "cudnnReduceTensor " BACKEND
#define POOLING "cudnnPoolingForward cudnnPoolingBackward " BACKEND
#define RECURRENT "cudnnRNNForward cudnnRNNBackwardData_v8 cudnnRNNBackwardWeights_v8"
#define TORCH_CONVOLUTION "convolution _convolution cudnn_convolution"

constexpr CallRow rows[] = {
    {"none",
     "cudnnDivisiveNormalizationForward cudnnDivisiveNormalizationBackward cudnnTransformTensor cudnnTransformTensorEx "
     "cudnnTransformFilter cudnnScaleTensor cudnnSetTensor cudnnIm2Col cudnnReorderFilterAndBias",
     {"", "", ""}},
    {"mm",
     "cublasSgemm_v2 cublasSgemmEx cublasGemmEx cublasHgemm cublasLtMatmul sgemm sbgemm " BACKEND,
     {"mm addmm linear matmul __matmul__ einsum linalg_multi_dot multi_dot chain_matmul",
      "matmul_v2 matmul mul einsum linear_v2", "MatMul MatMulExt Dense Addmm Einsum"}},
    {"addmm", "cublasLtMatmul", {"addmm linear", "fused_gemm_epilogue linear_v2", "Dense Addmm"}},
    {"bmm",
     "cublasSgemmStridedBatched cublasSgemmBatched cublasGemmStridedBatchedEx cublasGemmBatchedEx "
     "cublasSgemmGroupedBatched cublasGemmGroupedBatchedEx cublasHgemmStridedBatched cublasHgemmBatched "
     "cublasLtMatmul sgemm_batch sgemm_batch_strided " BACKEND,
     {"bmm baddbmm addbmm matmul __matmul__ einsum", "matmul_v2 matmul einsum bmm",
      "BatchMatMul BatchMatMulExt Einsum Addbmm Baddbmm"}},
    {"mv",
     "cublasSgemv_v2 cublasSgemvBatched cublasSgemvStridedBatched cublasSgbmv_v2 cublasSsymv_v2 cublasSsbmv_v2 "
     "cublasSspmv_v2 sgemv",
     {"mv addmv matmul __matmul__", "mv matmul_v2 matmul", "Mv Addmv"},
     false},
    {"conv2d",
     CONVOLUTION,
     {"conv2d conv1d " TORCH_CONVOLUTION, "conv2d", "Conv2D Conv2DExt Conv2d Conv1d Convolution"}},
    {"conv3d", CONVOLUTION, {"conv3d " TORCH_CONVOLUTION, "conv3d", "Conv3D Conv3DExt Conv3d Convolution"}},
    {"conv_depthwise2d",
     CONVOLUTION,
     {"conv2d conv1d " TORCH_CONVOLUTION, "depthwise_conv2d", "Conv2D Conv2DExt Conv2d Conv1d Convolution"}},
    {"lstm", RECURRENT, {"_cudnn_rnn lstm", "rnn cudnn_lstm", "LSTM"}},
    {"gru", RECURRENT, {"_cudnn_rnn gru", "rnn", ""}},
    {"rnn_tanh", RECURRENT, {"_cudnn_rnn rnn_tanh", "rnn", ""}},
    {"rnn_relu", RECURRENT, {"_cudnn_rnn rnn_relu", "rnn", ""}},
    {"scaled_dot_product_attention",
     "cudnnMultiHeadAttnForward cudnnMultiHeadAttnBackwardData cudnnMultiHeadAttnBackwardWeights " BACKEND,
     {"scaled_dot_product_attention", "flash_attn fused_attention", "FlashAttentionScore"}},
    {"softmax", SOFTMAX, {"softmax softmin", "softmax softmin softmax_with_cross_entropy", "Softmax"}},
    {"log_softmax", SOFTMAX, {"log_softmax", "log_softmax", "LogSoftmax LogSoftmaxExt"}},
    {"batch_norm",
     "cudnnBatchNormalizationForwardTraining cudnnBatchNormalizationForwardTrainingEx "
     "cudnnBatchNormalizationForwardInference cudnnBatchNormalizationBackward cudnnBatchNormalizationBackwardEx "
     "cudnnNormalizationForwardTraining cudnnNormalizationForwardInference cudnnNormalizationBackward " BACKEND,
     {"batch_norm cudnn_batch_norm instance_norm", "batch_norm sync_batch_norm instance_norm",
      "BatchNorm2d=BatchNorm BatchNorm1d BatchNorm3d BatchNormExt"}},
    {"local_response_norm",
     "cudnnLRNCrossChannelForward cudnnLRNCrossChannelBackward",
     {"local_response_norm", "lrn", "LRN"}},
    {"max_pool2d", POOLING, {"max_pool2d", "pool2d", "MaxPool"}}, // Paddle's max_pool2d_with_index has its own kernel
    {"avg_pool2d", POOLING, {"avg_pool2d", "pool2d", "AvgPool"}},
    {"relu", ACTIVATION, {"relu", "relu", "ReLU"}},
    {"sigmoid", ACTIVATION, {"sigmoid", "sigmoid", "Sigmoid"}},
    {"tanh", ACTIVATION, {"tanh", "tanh", "Tanh"}},
    {"elu", ACTIVATION, {"elu", "elu", "Elu"}},
    {"silu", ACTIVATION, {"silu", "silu", "SiLU"}},
    {"add", "cudnnOpTensor cublasSaxpy_v2 cublasAxpyEx cublasSgeam " BACKEND, {"add", "elementwise_add", "Add AddN"}},
    {"mul",
     "cudnnOpTensor cublasSscal_v2 cublasScalEx cublasSdgmm " BACKEND,
     {"mul", "elementwise_mul scale", "Mul"}}, // Paddle's `mul` is a matrix product
    {"max", "cudnnOpTensor " REDUCTION, {"max", "reduce_max", "ReduceMax"}},
    {"min", "cudnnOpTensor " REDUCTION, {"min", "reduce_min", "ReduceMin"}},
    {"sum", REDUCTION, {"sum", "reduce_sum", "SumExt=ReduceSum"}},
    {"mean", REDUCTION, {"mean", "reduce_mean mean", "ReduceMean MeanExt"}},
    {"prod", REDUCTION, {"prod", "reduce_prod", "ReduceProd ProdExt"}},
    {"norm",
     "cublasSnrm2_v2 cublasNrm2Ex cublasSasum_v2 cublasAsumEx " REDUCTION,
     {"norm linalg_vector_norm frobenius_norm", "pnorm frobenius_norm", "Norm"}},
    {"bias_add", "cudnnAddTensor", {"add", "elementwise_add", "BiasAdd"}},
    {"dropout", "cudnnDropoutForward cudnnDropoutBackward", {"dropout", "dropout", "Dropout"}},
    {"ctc_loss", "cudnnCTCLoss cudnnCTCLoss_v8", {"ctc_loss _cudnn_ctc_loss", "warpctc", "CTCLoss"}, false},
    {"grid_sampler",
     "cudnnSpatialTfSamplerForward cudnnSpatialTfSamplerBackward",
     {"grid_sampler grid_sample", "grid_sample", "GridSampler2D GridSampler3D"}},
    {"affine_grid_generator",
     "cudnnSpatialTfGridGeneratorForward cudnnSpatialTfGridGeneratorBackward",
     {"affine_grid_generator", "affine_grid", "AffineGrid"}},
    {"addr", "cublasSger_v2", {"addr", "outer", "Ger"}, false},
    {"dot", "cublasSdot_v2 cublasDotEx", {"dot vdot linalg_vecdot", "dot", "Dot"}, false},
    {"argmax",
     "cublasIsamax_v2 cublasIamaxEx cublasIsamin_v2 cublasIaminEx",
     {"argmax argmin", "arg_max arg_min", "Argmax Argmin"},
     false},
    {"triangular_solve",
     "strsm cublasStrsm_v2 cublasStrsmBatched cublasStrsv_v2 cublasStpsv_v2 cublasStbsv_v2",
     {"triangular_solve", "triangular_solve", "MatrixTriangularSolve"},
     false},
    {"linalg_solve",
     "cublasSgetrsBatched cublasSgetrfBatched cublasSgetriBatched cublasSgeqrfBatched cublasSgelsBatched "
     "cublasSmatinvBatched",
     {"linalg_solve inverse", "solve inverse", "MatrixInverse"},
     false},
    {"conv_transpose2d",
     CONVOLUTION,
     {"conv_transpose2d conv_transpose1d cudnn_convolution_transpose " TORCH_CONVOLUTION, "conv2d_transpose",
      "Conv2DTranspose ConvTranspose2D Conv2DBackpropInput Conv2dTranspose Conv1dTranspose Convolution"}},
    {"conv_transpose3d",
     CONVOLUTION,
     {"conv_transpose3d cudnn_convolution_transpose " TORCH_CONVOLUTION, "conv3d_transpose",
      "Conv3DTranspose Conv3dTranspose Convolution"}},
    {"layer_norm", BACKEND, {"layer_norm native_layer_norm", "layer_norm", "LayerNorm LayerNormExt"}},
    {"rms_norm", BACKEND, {"rms_norm", "rms_norm", "RmsNorm"}},
    {"group_norm", BACKEND, {"group_norm", "group_norm", "GroupNorm"}},
    {"exp",
     BACKEND,
     {"exp log pow rsqrt reciprocal tan softplus __pow__ __rpow__ __rdiv__ __rtruediv__",
      "exp log pow rsqrt reciprocal tan softplus",
      "Exp Log Pow Rsqrt Reciprocal Tan Softplus SoftplusExt"}}, // pointwise nodes, all of one category
    {"atan2", BACKEND, {"atan2", "atan2", "Atan2"}},
    {"gelu", BACKEND, {"gelu erf sqrt sin cos", "gelu erf sqrt sin cos", "GeLU Erf Sqrt Sin Cos"}},
    {"upsample_bilinear2d",
     BACKEND,
     {"upsample_bilinear2d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_linear1d "
      "upsample_trilinear3d",
      "bilinear_interp_v2 nearest_interp_v2 linear_interp_v2 trilinear_interp_v2",
      "ResizeBilinearV2 ResizeNearestNeighborV2"}},
    {"cat", BACKEND, {"cat", "concat", "Concat"}},
};
static_assert(std::size(rows) == callRowCount);

} // namespace

std::span<const CallRow> callRows()
{
	return rows;
}

} // namespace autoamp::policy
