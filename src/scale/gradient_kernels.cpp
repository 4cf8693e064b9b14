#include "src/scale/gradient_kernels.h"

namespace autoamp::scale {

namespace {

using Part = GradientKernel::Part;
using Use = NamedKernel::Use;

// Sources: the kernels for mixed precision in PyTorch, Paddle, Apex and OneFlow. Mangled names are those that nvcc
// gives these signatures.
constexpr GradientKernel torchFirst = {.framework = "torch", // before 1.6: without tracker, out of place
                                       .part = Part::update,
                                       .before = {.scale = 0},
                                       .after = {.scale = 2},
                                       .foundInf = 1,
                                       .growth = 3,
                                       .backoff = 4,
                                       .identity = 1,
                                       .sizes = {8, 8, 8, 8, 8}};
constexpr GradientKernel torchOutOfPlace = {.framework = "torch", // 1.6 to 1.8
                                            .part = Part::update,
                                            .before = {.scale = 1, .tracker = 0},
                                            .after = {.scale = 3, .tracker = 0},
                                            .foundInf = 2,
                                            .growth = 4,
                                            .backoff = 5,
                                            .interval = 6,
                                            .identity = 0,
                                            .sizes = {8, 8, 8, 8, 8, 8, 4}};
constexpr GradientKernel torchInPlace = {.framework = "torch", // from 1.9 on
                                         .part = Part::update,
                                         .before = {.scale = 0, .tracker = 1},
                                         .after = {.scale = 0, .tracker = 1},
                                         .foundInf = 2,
                                         .growth = 3,
                                         .backoff = 4,
                                         .interval = 5,
                                         .identity = 0,
                                         .sizes = {8, 8, 8, 8, 8, 4}};
constexpr GradientKernel oneflow = {.framework = "oneflow",
                                    .part = Part::update,
                                    .before = {.scale = 0, .tracker = 1},
                                    .after = {.scale = 0, .tracker = 1},
                                    .foundInf = 2,
                                    .growth = 3,
                                    .backoff = 4,
                                    .interval = 5,
                                    .identity = 0,
                                    .sizes = {8, 8, 8, 8, 8, 8}};
constexpr GradientKernel apexHysteresis = {.framework = "apex",
                                           .part = Part::update,
                                           .before = {.scale = 0, .tracker = 1, .hysteresis = 2},
                                           .after = {.scale = 0, .tracker = 1, .hysteresis = 2},
                                           .foundInf = 3,
                                           .growth = 4,
                                           .backoff = 5,
                                           .interval = 6,
                                           .identity = 0,
                                           .sizes = {8, 8, 8, 8, 8, 8, 4, 4}};
// Static graph of Paddle. tracker: good steps in a row; hysteresis: bad steps in a row.
constexpr GradientKernel paddleStatic = {.framework = "paddle",
                                         .part = Part::update,
                                         .before = {.scale = 1, .tracker = 2, .hysteresis = 3},
                                         .after = {.scale = 8, .tracker = 9, .hysteresis = 10},
                                         .foundInf = 0,
                                         .foundInfBytes = 1,
                                         .growth = 6,
                                         .backoff = 7,
                                         .interval = 4,
                                         .hasFloatFactors = true,
                                         .identity = 8,
                                         .sizes = {8, 8, 8, 8, 4, 4, 4, 4, 8, 8, 8}};
constexpr GradientKernel valueOf(GradientKernel kernel)
{
	kernel.isFoundInfValue = true;
	kernel.sizes[kernel.foundInf] = 1;
	return kernel;
}
constexpr GradientKernel paddleStaticValue = valueOf(paddleStatic);
constexpr GradientKernel paddleBegin = {
    .framework = "paddle", .part = Part::begin, .before = {.scale = 0}, .identity = 2, .sizes = {8, 8, 8}};
constexpr GradientKernel paddleEnd = {.framework = "paddle",
                                      .part = Part::end,
                                      .foundInf = 4,
                                      .foundInfBytes = 1,
                                      .identity = 4,
                                      .sizes = {8, 8, 8, 8, 8, 8}};

// A name has the beginning and the end, and is not longer than both except for a template or an anonymous namespace.
struct Row {
	std::string_view begin, end; // end empty: the whole name
	const GradientKernel &kernel;
};
constexpr Row rows[] = {
    {"_ZN2at6native23amp_update_scale_kernelEPfS1_S1_dd", "", torchFirst},
    {"_ZN2at6native28amp_update_scale_cuda_kernelEPiPfS2_S2_ddi", "", torchOutOfPlace},
    {"_ZN2at6native28amp_update_scale_cuda_kernelEPfPiS1_ddi", "", torchInPlace},
    {"_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi", "", torchInPlace},
    {"_Z35update_scale_hysteresis_cuda_kernelPfPiS0_PKfddii", "", apexHysteresis},
    {"_ZN7oneflow", "18AmpUpdateScaleImplIfEEvPT_PiPKS2_ddl", oneflow},
    {"_ZN3phi20GpuUpdateLossScalingIfPKbEEvT0_PKT_PKiS8_iiffPS4_PiSA_", "", paddleStatic},
    {"_ZN3phi20GpuUpdateLossScalingIfbEEvT0_PKT_PKiS6_iiffPS2_PiS8_", "", paddleStaticValue},
    {"_ZN6paddle9operators20GpuUpdateLossScalingIfEEvPKbPKT_PKiS8_iiffPS4_PiSA_", "", paddleStatic},
    {"_ZN3phi16InverseAndMemsetIfEEvPKT_PS1_Pb", "", paddleBegin},
    {"_ZN6paddle9operators16InverseAndMemsetIfEEvPKT_PS2_Pb", "", paddleBegin},
    // S1_ to SZ_, by the namespaces of the type of the gradients.
    {"_ZN3phi21CheckFiniteAndUnscaleI", "fEEvPPKT_PKT0_lPlPbPPS?_", paddleEnd},
    {"_ZN6paddle9operators21CheckFiniteAndUnscaleI", "fEEvPPKT_PKT0_lPlPbPPS?_", paddleEnd},
};

// `?` in the pattern is any character.
bool endsWith(std::string_view name, std::string_view pattern)
{
	if (name.size() < pattern.size())
		return false;
	name.remove_prefix(name.size() - pattern.size());
	for (size_t i = 0; i < pattern.size(); i++)
		if (pattern[i] != '?' && pattern[i] != name[i])
			return false;
	return true;
}

bool matches(std::string_view name, const Row &row)
{
	if (row.end.empty())
		return name == row.begin;
	return name.size() >= row.begin.size() + row.end.size() && name.starts_with(row.begin) && endsWith(name, row.end);
}

constexpr std::string_view updateNames[] = {
    "amp_update_scale_kernel", "amp_update_scale_cuda_kernel", "update_scale_hysteresis_cuda_kernel",
    "AmpUpdateScaleImpl",      "GpuUpdateLossScaling",         "InverseAndMemset",
    "CheckFiniteAndUnscale"};

constexpr struct {
	std::string_view part, other;
	const char *reason;
} valueless[] = {
    {"_amp_foreach_non_finite_check_and_unscale_cuda", "",
     "torch: gradients are unscaled, but no update kernel runs: the scale is changed on the host (as in Megatron-LM)"},
    {"_amp_non_finite_check_and_unscale_cuda", "",
     "torch: gradients are unscaled, but no update kernel runs: the scale is changed on the host (as in Megatron-LM)"},
    {"AmpNonFiniteCheckAndUnscaleFunctor", "",
     "torch: gradients are unscaled, but no update kernel runs: the scale is changed on the host (as in Megatron-LM)"},
    {"multi_tensor_apply_kernel", "12ScaleFunctor",
     "apex: multi_tensor_scale runs several times a step, and the scale is changed on the host"},
    {"_Z11FloatStatusI", "",
     "mindspore: FloatStatus has one flag for each gradient; the scale is not one of its parameters"},
};

} // namespace

NamedKernel gradientKernel(std::string_view mangled)
{
	for (const Row &row : rows)
		if (matches(mangled, row))
			return {Use::watched, &row.kernel};
	for (const std::string_view name : updateNames)
		if (mangled.find(name) != mangled.npos)
			return {Use::unknown};
	for (const auto &row : valueless)
		if (mangled.find(row.part) != mangled.npos && mangled.find(row.other) != mangled.npos)
			return {Use::valueless, nullptr, row.reason};
	return {};
}

} // namespace autoamp::scale
