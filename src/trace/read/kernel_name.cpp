#include "src/trace/read/kernel_name.h"

namespace autoamp::trace {
namespace {

struct Pattern {
	std::string_view part;
	TensorCores tensorCores;
	const char *dtype;
};

// The first pattern that a name contains decides. Derived from the names in libcublasLt.so.13 and libcudnn*.so.9. xmma
// names contain <A B>_<multiply accumulate>_<out>. CUTLASS names contain the instruction (s1688: sums in fp32, 16x8x8)
// and, if the data is converted when loaded, the type before "gemm". The format of nvjet_* names is not documented.
constexpr Pattern patterns[] = {
    {"f32f32_f32f32_f32", TensorCores::no, "float32"},
    {"_simt_sgemm", TensorCores::no, "float32"},
    {"_simt_", TensorCores::no, nullptr},
    {"_tf32f32_", TensorCores::yes, "tf32"},
    {"bf16bf16_bf16f32", TensorCores::yes, "bfloat16"},
    {"bf16gemm_", TensorCores::yes, "bfloat16"},
    {"gemm_bf16_", TensorCores::yes, "bfloat16"},
    {"f16f16_f16f", TensorCores::yes, "float16"},
    {"f16gemm_", TensorCores::yes, "float16"},
    {"gemm_f16_", TensorCores::yes, "float16"},
    {"_s1688gemm_", TensorCores::yes, "tf32"},
    {"_tensorop_", TensorCores::yes, nullptr},
    {"_tensor16x8x", TensorCores::yes, nullptr},
    {"h884", TensorCores::yes, "float16"},
    {"_sgemm_", TensorCores::no, "float32"},
    {"_scudnn_", TensorCores::no, "float32"},
};

struct ScalerPattern {
	std::string_view part, other; // a name must contain both
	const char *framework, *step;
};

// torch: ATen/native/cuda/AmpKernels.cu, for a list of tensors and for one. Paddle: phi/kernels/gpu/amp_kernel.cu.
// Apex: csrc/multi_tensor_scale_kernel.cu; Paddle has a functor of the same name that does not belong to a scaler.
constexpr ScalerPattern scalers[] = {
    {"_amp_foreach_non_finite_check_and_unscale_cuda_", "", "torch", "unscale"},
    {"_amp_non_finite_check_and_unscale_cuda_", "", "torch", "unscale"},
    {"amp_update_scale_cuda_kernel", "", "torch", "update"},
    {"CheckFiniteAndUnscale", "", "paddle", "unscale"},
    {"UpdateLossScaling", "", "paddle", "update"},
    {"multi_tensor_apply_kernel", "ScaleFunctor", "apex", "unscale"},
};

} // namespace

KernelFacts factsOf(std::string_view name)
{
	KernelFacts facts;
	for (const Pattern &pattern : patterns)
		if (name.find(pattern.part) != name.npos) {
			facts.tensorCores = pattern.tensorCores;
			facts.dtype = pattern.dtype;
			break;
		}
	for (const ScalerPattern &scaler : scalers)
		if (name.find(scaler.part) != name.npos && name.find(scaler.other) != name.npos) {
			facts.scalerOf = scaler.framework;
			facts.scalerStep = scaler.step;
			break;
		}
	return facts;
}

} // namespace autoamp::trace
