// MindSpore 2.10.0, python/mindspore/train/amp.py; the promote list of `auto` is in its C++ (AutoPromoteList). Cells
// (nn.Dense) and Primitives (ops.MatMul) are named without their module.
#include "src/lists/lists.h"

namespace autoamp::policy {

namespace {

constexpr uint8_t O1 = bit(Level::O1), O2 = bit(Level::O2), O3 = bit(Level::O3), automatic = bit(Level::automatic);
constexpr OpList lists[] = {
    {Category::lower_precision, O1, false,
     "Conv1d Conv2d Conv3d Conv1dTranspose Conv2dTranspose Conv3dTranspose Dense LSTMCell RNNCell GRUCell "
     "Conv2D Conv3D Conv2DTranspose Conv3DTranspose Conv2DBackpropInput MatMul BatchMatMul PReLU ReLU Ger"},
    {Category::fp32, O2, false, "BatchNorm1d BatchNorm2d BatchNorm3d LayerNorm"},
    {Category::lower_precision, automatic, false,
     "Conv2D Conv3D Conv2DExt Conv3DExt ConvTranspose2D Conv2DTranspose Conv3DTranspose Convolution MatMul MatMulExt "
     "BatchMatMul BatchMatMulExt PReLU Einsum Dense Addmm Addbmm Addmv Baddbmm Mv"},
    {Category::fp32, automatic, false,
     "Pow ACos Asin Cosh Erfinv Exp Expm1 Log Log10 Log1p Log2 Reciprocal Rsqrt Sinh Tan Softplus SoftplusExt "
     "LayerNorm LayerNormExt BatchNorm BatchNormExt GroupNorm Norm KLDivLoss SmoothL1Loss MultilabelMarginLoss "
     "SoftMarginLoss TripletMarginLoss MultiMarginLoss BCEWithLogitsLoss Pdist Cdist Renorm ReduceProd Softmax "
     "LogSoftmax LogSoftmaxExt CumProd CumSum CumsumExt ProdExt SumExt L1LossExt MSELossExt NLLLoss NLLLoss2d"},
    {Category::promote, automatic, false,
     "Addcdiv Addcmul Cross _PyboostCrossPrim GridSampler2D GridSampler3D BiasAdd AddN Dot Concat"},
};

} // namespace

// At O1 and auto, an op on no list runs in the type of its operands. O2 lowers all ops except those on its list; O3
// lowers all ops.
const ListSystem mindsporeLists = {"ms", "MindSpore 2.10.0", bit(Level::O0) | O1 | O2 | O3 | automatic, O2 | O3, 0,
                                   lists};

} // namespace autoamp::policy
