#include "src/trace/read/kernel_name.h"

#include <catch2/catch.hpp>
#include <string>

using namespace autoamp::trace;

TEST_CASE("names of kernels tell what they multiply in, or nothing")
{
	struct Row {
		const char *name;
		TensorCores tensorCores;
		std::string dtype; // "": not in the name
	};
	// From libcublasLt.so.13, libcudnn_engines_precompiled.so.9 and older cuBLAS. For each row of the table there is a
	// name that no other row matches.
	const auto row = GENERATE(values<Row>({
	    {"sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_"
	     "cublas",
	     TensorCores::yes, "float16"},
	    {"sm80_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize32x32x64_stage6_warpsize2x2x1_tensor16x8x16_execute_kernel",
	     TensorCores::yes, "bfloat16"},
	    {"sm80_xmma_gemm_f32f32_tf32f32_f32_tt_n_tilesize64x64x64_stage3_warpsize2x2x1_tensor16x8x8_execute_kernel",
	     TensorCores::yes, "tf32"},
	    {"sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_alignc4_execute_"
	     "kernel",
	     TensorCores::no, "float32"},
	    {"_ZN7cutlass7Kernel2I66cutlass_80_tensorop_s16816gemm_bf16_256x64_32x4_nn_align8EEvNT_6ParamsE",
	     TensorCores::yes, "bfloat16"},
	    {"_ZN7cutlass7Kernel2I65cutlass_80_tensorop_s16816gemm_f16_128x64_32x6_tn_align8EEvNT_6ParamsE",
	     TensorCores::yes, "float16"},
	    {"_ZN7cutlass7Kernel2I58cutlass_80_tensorop_s1688gemm_256x64_16x4_nt_align4EEvNT_6ParamsE", TensorCores::yes,
	     "tf32"},
	    {"_ZN7cutlass7Kernel2I62cutlass_80_tensorop_s1688bf16gemm_128x64_16x6_nn_align4EEvNT_6ParamsE",
	     TensorCores::yes, "bfloat16"},
	    {"_ZN7cutlass7Kernel2I52cutlass_80_simt_sgemm_128x256_8x4_nn_align1EEvNT_6ParamsE", TensorCores::no, "float32"},
	    {"_ZN7cutlass7Kernel2I42cutlass_100_simt_cgemm_64x64_8x3_hh_align1EEvNT_6ParamsE", TensorCores::no, ""},
	    {"_ZN7cutlass7Kernel2I53cutlass_80_tensorop_s1688f16gemm_64x64_16x6_nn_align1EEvNT_6ParamsE", TensorCores::yes,
	     "float16"},
	    {"_ZN7cutlass7Kernel2I54cutlass_80_tensorop_i16832gemm_s8_64x64_64x5_tn_align4EEvNT_6ParamsE", TensorCores::yes,
	     ""},
	    {"sm80_xmma_fprop_implicit_gemm_i8i8_i8i32_f32_nhwckrsc_nhwc_tilesize128x128x64_stage4_warpsize2x2x1_g1_"
	     "tensor16x8x32",
	     TensorCores::yes, ""},
	    {"_5x_cudnn_ampere_scudnn_128x128_dgrad_exp_interior_nhwc_tt_v1", TensorCores::no, "float32"},
	    {"volta_sgemm_128x64_nn", TensorCores::no, "float32"},
	    {"volta_h884gemm_128x64_ldg8_nn", TensorCores::yes, "float16"},
	    {"nvjet_hsh_128x160_64x6_1x2_h_bz_coopA_TNT", TensorCores::unknown, ""},
	    {"_ZN8cublasLt19splitKreduce_kernelILi32ELi16EiffffLb0EffEEv", TensorCores::unknown, ""},
	    {"", TensorCores::unknown, ""},
	}));
	CAPTURE(row.name);
	const KernelFacts facts = factsOf(row.name);
	CHECK(facts.tensorCores == row.tensorCores);
	CHECK((facts.dtype ? facts.dtype : "") == row.dtype);
	CHECK_FALSE(facts.scalerOf);
}

TEST_CASE("kernels of gradient scalers are known by name, others are not taken for them")
{
	struct Row {
		const char *name, *scaler;
	};
	const auto row = GENERATE(values<Row>({
	    {"_ZN2at6native46_GLOBAL__N__c660ad18_13_AmpKernels_cu_3810c27325multi_tensor_apply_kernelINS1_"
	     "18TensorListMetadata"
	     "ILi1EEENS1_14UnaryOpFunctorIfLi1ELi1ELi0EEEJZZZNS0_47_amp_foreach_non_finite_check_and_unscale_cuda_"
	     "EN3c108ArrayRef"
	     "INS_6TensorEEERS9_RKS9_ENKUlvE_clEvENKUlvE2_clEvEUlfE_EEEvT_T0_DpT1_",
	     "torch unscale"},
	    {"void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::"
	     "_amp_non_finite_check_and_unscale_cuda_(at::Tensor&, at::Tensor&, at::Tensor const&)::{lambda(float)#1}>",
	     "torch unscale"},
	    {"at::native::amp_update_scale_cuda_kernel(float*, int*, float*, double, double, int)", "torch update"},
	    {"void phi::CheckFiniteAndUnscale<float, float>(float const**, float const*, long, long*, bool*, float**)",
	     "paddle unscale"},
	    {"_ZN3phi20GpuUpdateLossScalingIfPKbEEvT0_PKT_PKiS8_iiffPS4_PiSA_", "paddle update"},
	    {"_Z25multi_tensor_apply_kernelI18TensorListMetadataILi2EE12ScaleFunctorIffEJfEEvlPViT_T0_DpT1_",
	     "apex unscale"},
	    {"void phi::funcs::VectorizedElementwiseKernel<float, phi::ScaleFunctor<float, float>, 1, 1, 4>(int)", ""},
	    {"_Z25multi_tensor_apply_kernelI18TensorListMetadataILi4EE11AdamFunctorIfEJfEEvlPViT_T0_DpT1_", ""},
	}));
	CAPTURE(row.name);
	const KernelFacts facts = factsOf(row.name);
	CHECK((facts.scalerOf ? std::string(facts.scalerOf) + " " + facts.scalerStep : "") == row.scaler);
}
