// Host functions for the kernels of scalers.cu, by the names that nvcc gives them.
#include "scaler_kernels.h"

#include "kernel.h"

#include <cmath>

namespace {

template <class T>
T at(void **arguments, int i)
{
	return *static_cast<T *>(arguments[i]);
}
template <class T>
T *view(void **arguments, int i)
{
	return emulated::deviceView(at<T *>(arguments, i));
}

void torch15(const emulated::Launch &, void **a)
{
	scaler::torchFirst(view<float>(a, 0), view<float>(a, 1), view<float>(a, 2), at<double>(a, 3), at<double>(a, 4));
}
void torch16(const emulated::Launch &, void **a)
{
	scaler::torch(view<float>(a, 1), view<int>(a, 0), view<float>(a, 2), at<double>(a, 4), at<double>(a, 5),
	              at<int>(a, 6), false, view<float>(a, 3));
}
template <bool isGuarded, class Interval = int, class Factor = double>
void inPlace(const emulated::Launch &, void **a)
{
	float *const scale = view<float>(a, 0);
	scaler::torch(scale, view<int>(a, 1), view<float>(a, 2), at<Factor>(a, 3), at<Factor>(a, 4), at<Interval>(a, 5),
	              isGuarded, scale);
}
void apex(const emulated::Launch &, void **a)
{
	scaler::apex(view<float>(a, 0), view<int>(a, 1), view<int>(a, 2), view<float>(a, 3), at<double>(a, 4),
	             at<double>(a, 5), at<int>(a, 6), at<int>(a, 7));
}
template <bool isValue>
void paddle(const emulated::Launch &, void **a)
{
	bool found;
	if constexpr (isValue)
		found = at<bool>(a, 0);
	else
		found = *view<bool>(a, 0);
	scaler::paddle(found, view<float>(a, 1), view<int>(a, 2), view<int>(a, 3), at<int>(a, 4), at<int>(a, 5),
	               at<float>(a, 6), at<float>(a, 7), view<float>(a, 8), view<int>(a, 9), view<int>(a, 10));
}
void inverse(const emulated::Launch &, void **a)
{
	*view<float>(a, 1) = 1 / *view<float>(a, 0);
	*view<bool>(a, 2) = false;
}
void unscale(const emulated::Launch &, void **a)
{
	float **const xs = view<float *>(a, 0), **const outs = view<float *>(a, 5);
	for (int64_t i = 0; i < at<int64_t>(a, 2); i++) {
		float &out = *emulated::deviceView(outs[i]);
		out = *emulated::deviceView(xs[i]) * *view<float>(a, 1);
		if (!std::isfinite(out))
			*view<bool>(a, 4) = true;
	}
}

constexpr size_t torch15Sizes[] = {8, 8, 8, 8, 8}, torch16Sizes[] = {8, 8, 8, 8, 8, 8, 4},
                 torchSizes[] = {8, 8, 8, 8, 8, 4}, longerSizes[] = {8, 8, 8, 8, 8, 4, 1},
                 modulusSizes[] = {8, 8, 8, 4, 4, 4, 4, 4, 4}, apexSizes[] = {8, 8, 8, 8, 8, 8, 4, 4},
                 eights[] = {8, 8, 8, 8, 8, 8}, paddleSizes[] = {8, 8, 8, 8, 4, 4, 4, 4, 8, 8, 8},
                 valueSizes[] = {1, 8, 8, 8, 4, 4, 4, 4, 8, 8, 8};
constexpr emulated::Kernel kernels[] = {
    {"_ZN2at6native23amp_update_scale_kernelEPfS1_S1_dd", torch15, torch15Sizes, 5},
    {"_ZN2at6native28amp_update_scale_cuda_kernelEPiPfS2_S2_ddi", torch16, torch16Sizes, 7},
    {"_ZN2at6native28amp_update_scale_cuda_kernelEPfPiS1_ddi", inPlace<false>, torchSizes, 6},
    {"_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddi", inPlace<true>, torchSizes, 6},
    {"_ZN2at6native28amp_update_scale_cuda_kernelEPfPiPKfddib", inPlace<true>, longerSizes, 7},
    {"_Z28amp_update_scale_cuda_kernelPfPiS_ffiffi", inPlace<true, int, float>, modulusSizes, 9},
    {"_Z35update_scale_hysteresis_cuda_kernelPfPiS0_PKfddii", apex, apexSizes, 8},
    {"_ZN7oneflow7unnamed18AmpUpdateScaleImplIfEEvPT_PiPKS2_ddl", inPlace<false, int64_t>, eights, 6},
    {"_ZN3phi20GpuUpdateLossScalingIfPKbEEvT0_PKT_PKiS8_iiffPS4_PiSA_", paddle<false>, paddleSizes, 11},
    {"_ZN3phi20GpuUpdateLossScalingIfbEEvT0_PKT_PKiS6_iiffPS2_PiS8_", paddle<true>, valueSizes, 11},
    {"_ZN3phi16InverseAndMemsetIfEEvPKT_PS1_Pb", inverse, eights, 3},
    {"_ZN3phi21CheckFiniteAndUnscaleIffEEvPPKT_PKT0_lPlPbPPS1_", unscale, eights, 6},
};
const emulated::Registration registration(kernels);

} // namespace
