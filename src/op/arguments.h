// What an application passed, by family: the generated doors copy parameters by name (inject/gen_entries.py reads the
// members here). Names are the vendor's own; a member that an entry point lacks keeps its default. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace autoamp::op {

constexpr int typeFloat32 = 0;     // CUDA_R_32F
constexpr int typeFloat16 = 2;     // CUDA_R_16F
constexpr int computeFloat32 = 68; // CUBLAS_COMPUTE_32F
constexpr int computeFloat16 = 64; // CUBLAS_COMPUTE_16F
constexpr int typeOfRow = -1;      // no such parameter: the row of the entry table knows the element type

// One matrix product of cuBLAS, or a batch of them; A, B and C are arrays of pointers where the entry's row says so.
// Sizes and strides in elements. An entry point without types is one of floats, or of what its row says.
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
	int algo = -1;      // CUBLAS_GEMM_DEFAULT; of calls without this argument, too
	int64_t groups = 1; // alpha and beta are arrays of as many scalars
};

// An array of the host's: of int, or of int64_t in the `_64` twins.
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

// Several batches in one call. A, B and C are on the device, as of any batch by pointers, all else is on the host.
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

// One product of cuBLASLt. `algo` and workspace were chosen for fp32: a lowered call has its own, but looks whether the
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

// Of a convolution's tensors x, w and y it says which is written.
enum class Direction : uint8_t { forward, backwardData, backwardFilter };

// One convolution of cuDNN. x, w and y stand for dx, dw and dy where the call has those.
// alpha and beta are on the host, floats where x is not float64; with bias and activation they are alpha1 and
// alpha2, which is z's. Algorithm and workspace are the application's own: a lowered call has others.
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
	bool isFused = false; // bias and activation follow, whatever their descriptors are
};

// A plan of cuDNN's graph API, and where its data is.
struct GraphCall {
	void *handle = nullptr;
	void *executionPlan = nullptr, *variantPack = nullptr;
};

// A recurrent net there, and back to its data or its weights. x stands for dx where the call has that.
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

// Every other call of cuDNN. One of the first three describes the data (the entry's row says which parameter that is),
// the others say what is done.
struct DnnCall {
	void *handle = nullptr;
	void *tensor = nullptr, *filter = nullptr, *sequence = nullptr;
	void *activationDesc = nullptr, *poolingDesc = nullptr, *reduceTensorDesc = nullptr, *opTensorDesc = nullptr;
	int algo = 0; // of a softmax
};

// Everything of cuBLAS that is never lowered: what a report can say about it. The handle of a cublasXt entry point is
// of another type than the others'. transa is also the only transposition of a call that has one.
struct PlainCall {
	void *handle = nullptr;
	int transa = 0, transb = 0;
	int64_t m = 0, n = 0, k = 0;
	int64_t batchCount = 1;
	int Atype = typeOfRow, xType = typeOfRow;
};

} // namespace autoamp::op
