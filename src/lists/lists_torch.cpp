// The CUDA registrations of torch 2.15.0 (aten/src/ATen/autocast_mode.{h,cpp}, cudnn/AutocastRNN.cpp), without overload
// suffixes; the end of a list has further spellings from the torch.amp documentation. fp32 includes fp32,
// fp32_set_opt_dtype and fp32_append_dtype: for library calls all three mean "never lowered". cross_entropy_loss and
// local_response_norm are not registered, but call log_softmax and pow.
#include "src/lists/lists.h"

namespace autoamp::policy {

namespace {

constexpr uint8_t O1 = bit(Level::O1);
constexpr OpList lists[] = {
    {Category::lower_precision, O1, false,
     "mm addmm linear matmul bmm baddbmm addbmm mv addmv addr einsum linalg_multi_dot linalg_vecdot "
     "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution _convolution "
     "cudnn_convolution cudnn_convolution_transpose prelu scaled_dot_product_attention "
     "_scaled_dot_product_flash_attention _cudnn_rnn _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell "
     "rnn_tanh_cell rnn_relu_cell "
     "__matmul__ multi_dot chain_matmul LSTMCell GRUCell RNNCell"},
    {Category::fp32, O1, false,
     "acos asin cosh erfinv exp expm1 log log10 log1p log2 pow reciprocal rsqrt sinh softplus tan "
     "layer_norm native_layer_norm rms_norm group_norm frobenius_norm nuclear_norm linalg_matrix_norm "
     "linalg_matrix_sqrth linalg_vector_norm norm renorm cosine_similarity cdist dist pdist logsumexp "
     "binary_cross_entropy_with_logits cosine_embedding_loss hinge_embedding_loss huber_loss kl_div l1_loss "
     "margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss nll_loss2d poisson_nll_loss "
     "smooth_l1_loss soft_margin_loss triplet_margin_loss "
     "upsample_nearest1d upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d "
     "_upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d "
     "upsample_bicubic2d _upsample_bicubic2d_aa "
     "softmax log_softmax prod sum cumprod cumsum cross_entropy_loss local_response_norm "
     "__pow__ __rpow__ __rdiv__ __rtruediv__ cross_entropy normalize softmin"},
    {Category::promote, O1, false,
     "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put scatter_add tensordot grid_sample"},
    {Category::banned, O1, false, "binary_cross_entropy BCELoss"},
};
// The CPU registrations. The end of a list has names that are not registered, but compute in the type of an op that is.
constexpr OpList cpuLists[] = {
    {Category::lower_precision, O1, false,
     "conv1d conv2d conv3d bmm mm linalg_vecdot baddbmm addmm _addmm_activation addbmm linear _convolution matmul "
     "conv_tbc mkldnn_rnn_layer conv_transpose1d conv_transpose2d conv_transpose3d prelu "
     "scaled_dot_product_attention _native_multi_head_attention "
     "__matmul__ einsum linalg_multi_dot multi_dot chain_matmul rnn_tanh_cell rnn_relu_cell LSTMCell GRUCell RNNCell"},
    {Category::fp32, O1, false,
     "avg_pool3d binary_cross_entropy grid_sampler polar prod quantile nanquantile stft cdist grid_sampler_2d "
     "_grid_sampler_2d_cpu_fallback grid_sampler_3d trace view_as_complex cholesky_inverse cholesky_solve inverse "
     "lu_solve orgqr ormqr pinverse max_pool3d max_unpool2d max_unpool3d adaptive_avg_pool3d reflection_pad1d "
     "reflection_pad2d replication_pad1d replication_pad2d replication_pad3d mse_loss cosine_embedding_loss "
     "nll_loss nll_loss2d hinge_embedding_loss poisson_nll_loss smooth_l1_loss cross_entropy_loss l1_loss "
     "huber_loss margin_ranking_loss soft_margin_loss triplet_margin_loss multi_margin_loss ctc_loss kl_div "
     "multilabel_margin_loss binary_cross_entropy_with_logits fft_fft fft_ifft fft_fft2 fft_ifft2 fft_fftn "
     "fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn fft_hfft fft_ihfft linalg_cond "
     "linalg_matrix_rank linalg_solve linalg_cholesky linalg_svdvals linalg_eigvals linalg_eigvalsh linalg_inv "
     "linalg_householder_product linalg_tensorinv linalg_tensorsolve fake_quantize_per_tensor_affine geqrf "
     "_lu_with_info svd triangular_solve fractional_max_pool2d fractional_max_pool3d adaptive_max_pool3d "
     "multilabel_margin_loss_forward linalg_qr linalg_cholesky_ex linalg_svd linalg_eig linalg_eigh linalg_lstsq "
     "linalg_inv_ex linalg_matrix_sqrth "
     "cross_entropy grid_sample BCELoss"},
    {Category::promote, O1, false, "stack cat index_copy"},
};

} // namespace

const ListSystem torchLists = {"torch", "torch 2.15.0", bit(Level::O0) | O1, 0, 0, lists};
const ListSystem torchCpuLists = {"torch", "torch 2.15.0, CPU", bit(Level::O0) | O1, 0, 0, cpuLists};

} // namespace autoamp::policy
