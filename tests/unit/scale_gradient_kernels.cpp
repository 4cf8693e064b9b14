#include "src/scale/gradient_kernels.h"

#include <catch2/catch.hpp>
#include <string>

using namespace autoamp::scale;
using Use = NamedKernel::Use;

TEST_CASE("kernels of gradient scalers are known by name and parameters")
{
	struct Row {
		const char *name, *framework;
		int scale, tracker, foundInf, parameters;
	};
	// Names that nvcc 13 gives the kernels with the frameworks' signatures.
	const auto row = GENERATE(values<Row>({
	    {"_ZN2at6native23amp_update_scale_kernelEPfS1_S1_dd", "torch", 0, -1, 1, 5},
	    {"_ZN2at6native28amp_update_scale_cuda_kernelEPiPfS2_S2_ddi", "torch", 1, 0, 2, 7},
	    {"_ZN2at6native28amp_update_scale_cuda_kernelEPfPiS1_ddi", "torch", 0, 1, 2, 6},
	    {"_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi", "torch", 0, 1, 2, 6},
	    {"_Z35update_scale_hysteresis_cuda_kernelPfPiS0_PKfddii", "apex", 0, 1, 3, 8},
	    {"_ZN7oneflow43_GLOBAL__N__3030b3a1_10_scalers_cu_d4cfde7418AmpUpdateScaleImplIfEEvPT_PiPKS2_ddl", "oneflow", 0,
	     1, 2, 6},
	    {"_ZN3phi20GpuUpdateLossScalingIfPKbEEvT0_PKT_PKiS8_iiffPS4_PiSA_", "paddle", 1, 2, 0, 11},
	    {"_ZN3phi20GpuUpdateLossScalingIfbEEvT0_PKT_PKiS6_iiffPS2_PiS8_", "paddle", 1, 2, 0, 11},
	    {"_ZN6paddle9operators20GpuUpdateLossScalingIfEEvPKbPKT_PKiS8_iiffPS4_PiSA_", "paddle", 1, 2, 0, 11},
	    {"_ZN3phi16InverseAndMemsetIfEEvPKT_PS1_Pb", "paddle", 0, -1, -1, 3},
	    {"_ZN6paddle9operators16InverseAndMemsetIfEEvPKT_PS2_Pb", "paddle", 0, -1, -1, 3},
	    {"_ZN3phi21CheckFiniteAndUnscaleIffEEvPPKT_PKT0_lPlPbPPS1_", "paddle", -1, -1, 4, 6},
	    {"_ZN3phi21CheckFiniteAndUnscaleINS_7float16EfEEvPPKT_PKT0_lPlPbPPS2_", "paddle", -1, -1, 4, 6},
	    {"_ZN6paddle9operators21CheckFiniteAndUnscaleIffEEvPPKT_PKT0_lPlPbPPS2_", "paddle", -1, -1, 4, 6},
	}));
	CAPTURE(row.name);
	const NamedKernel named = gradientKernel(row.name);
	REQUIRE((named.use == Use::watched && named.kernel));
	CHECK(std::string(named.kernel->framework) == row.framework);
	CHECK(named.kernel->before.scale == row.scale);
	CHECK(named.kernel->before.tracker == row.tracker);
	CHECK(named.kernel->foundInf == row.foundInf);
	int parameters = 0;
	while (named.kernel->sizes[parameters])
		parameters++;
	CHECK(parameters == row.parameters);
	// One more parameter, or another beginning: the state may be elsewhere.
	CHECK(gradientKernel(std::string(row.name) + "i").use == Use::unknown);
	CHECK(gradientKernel("x" + std::string(row.name)).use == Use::unknown);
}

TEST_CASE("other kernels are not read")
{
	struct Row {
		const char *name;
		Use use;
	};
	const auto row = GENERATE(values<Row>({
	    {"_Z28amp_update_scale_cuda_kernelPfPiS_ffiffi", Use::unknown}, // NVIDIA Modulus
	    {"_ZN2at6native28amp_update_scale_cuda_kernelEPdPiPKdddi", Use::unknown},
	    {"_ZN3phi20GpuUpdateLossScalingIdPKbEEvT0_PKT_PKiS8_iiffPS4_PiSA_", Use::unknown},
	    {"_ZN3phi16InverseAndMemsetIdEEvPKT_PS1_Pb", Use::unknown},
	    {"_ZN3phi21CheckFiniteAndUnscaleIfdEEvPPKT_PKT0_lPlPbPPS1_", Use::unknown},
	    {"_ZN7oneflow1a18AmpUpdateScaleImplIdEEvPT_PiPKS2_ddl", Use::unknown},
	    {"_Z11FloatStatusI6__halfEvmPKT_Pf", Use::valueless},
	    {"_Z25multi_tensor_apply_kernelI18TensorListMetadataILi2EE12ScaleFunctorIffEJfEEvlPViT_T0_DpT1_",
	     Use::valueless},
	    {"_ZN3phi5funcs27VectorizedElementwiseKernelIfNS_12ScaleFunctorIffEELi1ELi1ELi4EEEvv", Use::none},
	    {"autoamp_scaler_update", Use::none},
	    {"autoamp_watch", Use::none},
	    {"", Use::none},
	}));
	CAPTURE(row.name);
	const NamedKernel named = gradientKernel(row.name);
	CHECK(named.use == row.use);
	CHECK_FALSE(named.kernel);
	CHECK((named.reason != nullptr) == (row.use == Use::valueless));
}
