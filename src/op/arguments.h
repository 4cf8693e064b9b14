// Arguments of intercepted calls, by family. The generated wrappers copy parameters by name: inject/gen_entries.py
// reads the members here. Names are those of the vendor; a member that an entry point lacks keeps its default. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace autoamp::op {

constexpr int typeFloat32 = 0;     // CUDA_R_32F
constexpr int typeFloat16 = 2;     // CUDA_R_16F
constexpr int computeFloat32 = 68; // CUBLAS_COMPUTE_32F
constexpr int computeFloat16 = 64; // CUBLAS_COMPUTE_16F
constexpr int typeOfRow = -1;      // no such parameter: the row of the entry table has the element type

// A cuBLAS matrix product, or a batch of them. A, B and C are arrays of pointers if the row of the entry has
// `areArrays`. Sizes and strides in elements. If an entry point has no type arguments, the type is that of its row, or
// else float.
struct GemmCall {
	void *handle = nullptr;
	const void *alpha = nullptr;
	const void *A = nullptr;
	const void *B = nullptr;
	const void *beta = nullptr;
	void *C = nullptr;
	int transa = 0, transb = 0;
	int64_t m = 0, n = 0, k = 0;
	int64_t lda = 0, ldb = 0, ldc = 0;
	int64_t strideA = 0, strideB = 0, strideC = 0;
	int64_t batchCount = 1;
	int Atype = typeFloat32, Btype = typeFloat32, Ctype = typeFloat32;
	int computeType = computeFloat32;
	int algo = -1;      // CUBLAS_GEMM_DEFAULT; also for calls without this argument
	int64_t groups = 1; // alpha and beta are arrays of this length
};

// A host array of int, or of int64_t for the `_64` entry points.
struct Integers {
	const void *data = nullptr;
	bool isWide = false;

	Integers(std::nullptr_t) {}
	explicit Integers(const int *narrow) : data(narrow) {}
	explicit Integers(const int64_t *wide) : data(wide), isWide(true) {}
	int64_t operator[](int64_t i) const
	{
		return isWide ? static_cast<const int64_t *>(data)[i] : static_cast<const int *>(data)[i];
	}
};

// Several batches in one call. A, B and C are arrays of pointers in device memory, as for any batch by pointers; the
// rest is in host memory.
struct GroupedCall {
	void *handle = nullptr;
	const void *transa_array = nullptr, *transb_array = nullptr;
	Integers m_array = nullptr, n_array = nullptr, k_array = nullptr;
	Integers lda_array = nullptr, ldb_array = nullptr, ldc_array = nullptr;
	const void *alpha_array = nullptr, *beta_array = nullptr;
	const void *A = nullptr, *B = nullptr;
	void *C = nullptr;
	int64_t group_count = 0;
	Integers group_size = nullptr;
	int Atype = typeFloat32, Btype = typeFloat32, Ctype = typeFloat32;
	int computeType = computeFloat32;
};

// A cuBLASLt product. `algo` and workspace were chosen for fp32. A lowered call uses its own, but checks whether the
// vendor would have accepted these.
struct LtMatmulCall {
	void *lightHandle = nullptr;
	const void *computeDesc = nullptr;
	const void *alpha = nullptr;
	const void *A = nullptr, *Adesc = nullptr;
	const void *B = nullptr, *Bdesc = nullptr;
	const void *beta = nullptr;
	const void *C = nullptr, *Cdesc = nullptr;
	void *D = nullptr;
	const void *Ddesc = nullptr;
	const void *algo = nullptr;
	const void *workspace = nullptr;
	size_t workspaceSizeInBytes = 0;
	void *stream = nullptr;
};

// Direction of a convolution: selects which of x, w and y is written.
enum class Direction : uint8_t { forward, backwardData, backwardFilter };

// A cuDNN convolution. x, w and y also hold dx, dw and dy. alpha and beta are in host memory, as floats unless x is
// float64. With bias and activation they are alpha1 and alpha2; alpha2 multiplies z. A lowered call uses its own
// algorithm and workspace.
struct ConvolutionCall {
	void *handle = nullptr;
	const void *alpha = nullptr, *beta = nullptr;
	void *convDesc = nullptr, *activationDesc = nullptr;
	void *xDesc = nullptr, *wDesc = nullptr, *yDesc = nullptr, *zDesc = nullptr, *biasDesc = nullptr;
	void *x = nullptr, *w = nullptr, *y = nullptr;
	const void *z = nullptr, *bias = nullptr;
	int algo = 0;
	void *workSpace = nullptr;
	size_t workSpaceSizeInBytes = 0;
	Direction direction = Direction::forward;
	bool isFused = false; // bias and activation follow, whatever their descriptors contain
};

// A cuDNN graph plan and its variant pack, which has the data pointers.
struct GraphCall {
	void *handle = nullptr;
	void *executionPlan = nullptr, *variantPack = nullptr;
};

// The forward pass of an RNN, or its backward pass to data or weights. x also holds dx.
struct RnnCall {
	void *handle = nullptr;
	void *rnnDesc = nullptr;
	int fwdMode = 1, addGrad = 0; // cudnnForwardMode_t; cudnnWgradMode_t
	const void *devSeqLengths = nullptr;
	void *xDesc = nullptr, *yDesc = nullptr, *hDesc = nullptr, *cDesc = nullptr;
	void *x = nullptr, *y = nullptr;
	const void *dy = nullptr;
	const void *hx = nullptr, *dhy = nullptr;
	void *hy = nullptr, *dhx = nullptr;
	const void *cx = nullptr, *dcy = nullptr;
	void *cy = nullptr, *dcx = nullptr;
	size_t weightSpaceSize = 0;
	void *weightSpace = nullptr, *dweightSpace = nullptr;
	size_t workSpaceSize = 0, reserveSpaceSize = 0;
	void *workSpace = nullptr;
	void *reserveSpace = nullptr;
	Direction direction = Direction::forward;
};

// Every other cuDNN call. One of tensor, filter and sequence describes the data; the row of the entry selects the
// parameter. The other members describe the operation.
struct DnnCall {
	void *handle = nullptr;
	void *tensor = nullptr, *filter = nullptr, *sequence = nullptr;
	void *activationDesc = nullptr, *poolingDesc = nullptr, *reduceTensorDesc = nullptr, *opTensorDesc = nullptr;
	int algo = 0; // algorithm of a softmax
};

// The cuBLAS calls that are never lowered: only what reports show of them. Entry points of cublasXt have another type
// of handle. transa is also the transposition of a call that has only one.
struct PlainCall {
	void *handle = nullptr;
	int transa = 0, transb = 0;
	int64_t m = 0, n = 0, k = 0;
	int64_t batchCount = 1;
	int Atype = typeOfRow, xType = typeOfRow;
};

} // namespace autoamp::op
