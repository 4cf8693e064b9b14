// PaddlePaddle 3.3.1, python/paddle/amp/amp_lists.py. Names are the names of its operators.
#include "src/lists/lists.h"

namespace autoamp::policy {

namespace {

constexpr uint8_t O1 = bit(Level::O1), O2 = bit(Level::O2), OD = bit(Level::OD);
constexpr OpList lists[] = {
    {Category::lower_precision, O1 | O2 | OD, false,
     "conv2d einsum matmul matmul_v2 linear_v2 mul fused_gemm_epilogue max_pool2d_with_index "
     "fused_rotary_position_embedding flash_attn"},
    {Category::lower_precision, O1 | O2 | OD, true,
     "fake_quantize_dequantize_abs_max fake_quantize_dequantize_moving_average_abs_max fused_attention "
     "fused_feedforward"},
    {Category::fp32, O1, false,
     "tan acos asin sinh cosh atanh tanh_shrink erfinv exp expm1 log log10 log2 reciprocal rsqrt pow square "
     "reduce_sum mean reduce_mean reduce_prod cumprod cumsum dist pnorm frobenius_norm renorm group_norm layer_norm "
     "softmax softmin softplus log_softmax softmax_with_cross_entropy sigmoid_cross_entropy_with_logits "
     "c_softmax_with_cross_entropy c_softmax_with_multi_label_cross_entropy cross_entropy cross_entropy2 nll_loss "
     "huber_loss triplet_margin_loss log_loss hsigmoid_loss margin_cross_entropy"},
    {Category::fp32, O1 | O2, false,
     "linear_interp_v2 nearest_interp_v2 bilinear_interp_v2 bicubic_interp_v2 trilinear_interp_v2 lookup_table "
     "lookup_table_v2 scatter"},
};

} // namespace

// An op on no list: O1 promotes it and OD runs it in fp32, which both leave fp32 data unchanged. O2 promotes or lowers
// it.
const ListSystem paddleLists = {"paddle", "PaddlePaddle 3.3.1", bit(Level::O0) | O1 | O2 | OD, O2, O2, lists};

} // namespace autoamp::policy
