// The data: pytorch/pytorch aten/src/ATen/autocast_mode.{h,cpp} @4e0ff98084d4 and cudnn/AutocastRNN.cpp @0d0444e43c88,
// the CUDA registrations without overload suffixes. `fp32` joins fp32, fp32_set_opt_dtype and fp32_append_dtype: at the
// border of a library all three mean "never lowered". At the end of a list: spellings of the torch.amp documentation.
#include "src/policy/lists.h"

namespace autoamp::policy {

namespace {

using op::Kind;
constexpr uint32_t none = 0;
constexpr uint32_t mm = bit(Kind::mm);
constexpr uint32_t addmm =
    bit(Kind::mm) | bit(Kind::addmm); // with a bias epilogue, or a plain product and its backward
constexpr uint32_t bmm = bit(Kind::bmm);
constexpr uint32_t mv = bit(Kind::mv);

constexpr Category lower = Category::lower_precision;
constexpr Category fp32 = Category::fp32;
constexpr Category promote = Category::promote;
constexpr Category banned = Category::banned;
constexpr Category unlisted = Category::unlisted;

// clang-format off
constexpr TorchOp ops[] = {
	{"mm", lower, mm}, {"addmm", lower, addmm}, {"linear", lower, addmm}, {"linalg_multi_dot", lower, mm},
	{"matmul", lower, mm | bmm | mv}, {"einsum", lower, mm | bmm},
	{"bmm", lower, bmm}, {"baddbmm", lower, bmm}, {"addbmm", lower, bmm},
	{"mv", lower, mv}, {"addmv", lower, mv}, {"addr", lower, none}, {"linalg_vecdot", lower, none},
	{"conv1d", lower, none}, {"conv2d", lower, none}, {"conv3d", lower, none}, {"conv_tbc", lower, none},
	{"conv_transpose1d", lower, none}, {"conv_transpose2d", lower, none}, {"conv_transpose3d", lower, none},
	{"convolution", lower, none}, {"_convolution", lower, none}, {"cudnn_convolution", lower, none},
	{"cudnn_convolution_transpose", lower, none}, {"prelu", lower, none}, {"_cudnn_rnn", lower, none},
	{"_thnn_fused_lstm_cell", lower, none}, {"_thnn_fused_gru_cell", lower, none}, {"lstm_cell", lower, none},
	{"gru_cell", lower, none}, {"rnn_tanh_cell", lower, none}, {"rnn_relu_cell", lower, none},
	{"_scaled_dot_product_flash_attention", lower, none}, {"scaled_dot_product_attention", lower, none},
	{"__matmul__", lower, mm | bmm | mv}, {"multi_dot", lower, mm}, {"chain_matmul", lower, mm},
	{"GRUCell", lower, none}, {"LSTMCell", lower, none}, {"RNNCell", lower, none},

	{"acos", fp32, none}, {"asin", fp32, none}, {"cosh", fp32, none}, {"erfinv", fp32, none}, {"exp", fp32, none},
	{"expm1", fp32, none}, {"log", fp32, none}, {"log10", fp32, none}, {"log2", fp32, none}, {"log1p", fp32, none},
	{"reciprocal", fp32, none}, {"rsqrt", fp32, none}, {"sinh", fp32, none}, {"tan", fp32, none}, {"pow", fp32, none},
	{"softplus", fp32, none}, {"layer_norm", fp32, none}, {"native_layer_norm", fp32, none}, {"rms_norm", fp32, none},
	{"group_norm", fp32, none}, {"frobenius_norm", fp32, none}, {"nuclear_norm", fp32, none},
	{"cosine_similarity", fp32, none}, {"poisson_nll_loss", fp32, none}, {"cosine_embedding_loss", fp32, none},
	{"nll_loss", fp32, none}, {"nll_loss2d", fp32, none}, {"hinge_embedding_loss", fp32, none}, {"kl_div", fp32, none},
	{"l1_loss", fp32, none}, {"smooth_l1_loss", fp32, none}, {"huber_loss", fp32, none}, {"mse_loss", fp32, none},
	{"margin_ranking_loss", fp32, none}, {"multilabel_margin_loss", fp32, none}, {"soft_margin_loss", fp32, none},
	{"triplet_margin_loss", fp32, none}, {"multi_margin_loss", fp32, none},
	{"binary_cross_entropy_with_logits", fp32, none}, {"dist", fp32, none}, {"pdist", fp32, none},
	{"cdist", fp32, none}, {"renorm", fp32, none}, {"logsumexp", fp32, none}, {"upsample_nearest1d", fp32, none},
	{"_upsample_nearest_exact1d", fp32, none}, {"upsample_nearest2d", fp32, none},
	{"_upsample_nearest_exact2d", fp32, none}, {"upsample_nearest3d", fp32, none},
	{"_upsample_nearest_exact3d", fp32, none}, {"upsample_linear1d", fp32, none}, {"upsample_bilinear2d", fp32, none},
	{"_upsample_bilinear2d_aa", fp32, none}, {"upsample_trilinear3d", fp32, none}, {"upsample_bicubic2d", fp32, none},
	{"_upsample_bicubic2d_aa", fp32, none}, {"prod", fp32, none}, {"softmax", fp32, none}, {"log_softmax", fp32, none},
	{"cumprod", fp32, none}, {"cumsum", fp32, none}, {"linalg_vector_norm", fp32, none},
	{"linalg_matrix_norm", fp32, none}, {"sum", fp32, none}, {"norm", fp32, none},
	{"__pow__", fp32, none}, {"__rdiv__", fp32, none}, {"__rpow__", fp32, none}, {"__rtruediv__", fp32, none},
	{"cross_entropy", fp32, none}, {"normalize", fp32, none}, {"softmin", fp32, none},

	{"addcdiv", promote, none}, {"addcmul", promote, none}, {"atan2", promote, none}, {"bilinear", promote, none},
	{"cross", promote, none}, {"dot", promote, none}, {"vdot", promote, none}, {"grid_sampler", promote, none},
	{"index_put", promote, none}, {"tensordot", promote, none}, {"scatter_add", promote, none},
	{"grid_sample", promote, none},

	{"binary_cross_entropy", banned, none}, {"BCELoss", banned, none},

	// On no list, but with a library call of their own: a user may well name them.
	{"add", unlisted, none}, {"mul", unlisted, none}, {"argmax", unlisted, none}, {"triangular_solve", unlisted, none},
	{"inverse", unlisted, none}, {"linalg_solve", unlisted, none}, {"batch_norm", unlisted, none},
	{"cudnn_batch_norm", unlisted, none}, {"instance_norm", unlisted, none}, {"local_response_norm", unlisted, none},
	{"max_pool2d", unlisted, none}, {"avg_pool2d", unlisted, none}, {"relu", unlisted, none},
	{"sigmoid", unlisted, none}, {"tanh", unlisted, none}, {"elu", unlisted, none}, {"silu", unlisted, none},
	{"gelu", unlisted, none}, {"mean", unlisted, none}, {"max", unlisted, none}, {"min", unlisted, none},
	{"dropout", unlisted, none}, {"ctc_loss", unlisted, none}, {"_cudnn_ctc_loss", unlisted, none},
	{"affine_grid_generator", unlisted, none}, {"cat", unlisted, none},
};
// clang-format on

constexpr const char *kindNames[] = {"none", "mm", "addmm", "bmm", "mv"};
static_assert(std::size(kindNames) == kindCount);
constexpr const char *categoryNames[] = {"unlisted", "lower_precision", "fp32", "promote", "banned"};

} // namespace

const char *name(Category category)
{
	return categoryNames[static_cast<unsigned>(category)];
}

const char *name(op::Kind kind)
{
	return kindNames[static_cast<unsigned>(kind)];
}

Category category(op::Kind kind)
{
	const TorchOp *op = findTorchOp(name(kind));
	return op ? op->category : Category::unlisted;
}

std::span<const TorchOp> torchOps()
{
	return ops;
}

const TorchOp *findTorchOp(std::string_view name)
{
	for (const TorchOp &op : ops) {
		if (name == op.name)
			return &op;
	}
	return nullptr;
}

} // namespace autoamp::policy
