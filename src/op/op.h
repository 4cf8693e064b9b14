// Describes one intercepted call as a value: plain data, without pointers into the application. Any thread. The code
// that intercepts a call fills it; policy, lowering and trace read only this description.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace autoamp::op {

enum class Library : uint8_t { cublas, cublaslt, cudnn, blas };

// Name in reports.
inline const char *name(Library library)
{
	static constexpr const char *names[] = {"cublas", "cublaslt", "cudnn", "blas"};
	return names[static_cast<unsigned>(library)];
}

// Element types. No data in memory has type tf32: it is a precision of products of fp32 data.
enum class Dtype : uint8_t { none, float32, float16, bfloat16, tf32, float64, complex64, complex128, other };

// Name in reports; null for none.
inline const char *name(Dtype dtype)
{
	static constexpr const char *names[] = {nullptr,   "float32",   "float16",    "bfloat16", "tf32",
	                                        "float64", "complex64", "complex128", "other"};
	return names[static_cast<unsigned>(dtype)];
}

// Op names as in reports and in torch. A backward call has the name of its forward call. `none`: the op lists have no
// op for the entry point. Same order as policy::callRows().
enum class Kind : uint8_t {
	none,
	mm,
	addmm,
	bmm,
	mv,
	conv2d,
	conv3d,
	conv_depthwise2d,
	lstm,
	gru,
	rnn_tanh,
	rnn_relu,
	scaled_dot_product_attention,
	softmax,
	log_softmax,
	batch_norm,
	local_response_norm,
	max_pool2d,
	avg_pool2d,
	relu,
	sigmoid,
	tanh,
	elu,
	silu,
	add,
	mul,
	max,
	min,
	sum,
	mean,
	prod,
	norm,
	bias_add,
	dropout,
	ctc_loss,
	grid_sampler,
	affine_grid_generator,
};

inline bool isConvolution(Kind kind)
{
	return kind >= Kind::conv2d && kind <= Kind::conv_depthwise2d;
}
// The kinds up to this one are in the cost model.
constexpr Kind lastProduct = Kind::rnn_relu;
inline bool isProduct(Kind kind)
{
	return kind != Kind::none && kind <= lastProduct;
}
inline bool isRecurrent(Kind kind)
{
	return kind >= Kind::lstm && kind <= Kind::rnn_relu;
}

// Limits of a kind for the policy, in addition to those of the arguments.
enum Limit : uint8_t {
	lacksHalf = 1,    // the vendor library has no float16 engine with fp32 results; for bfloat16 it has one
	lacksFp32 = 2,    // the vendor library has no fp32 mode except one in the application's descriptor
	copiesStates = 4, // a lowered call copies states, which m * k includes, by another launch
};
inline unsigned limitsOf(Kind kind)
{
	return isRecurrent(kind) ? lacksHalf | lacksFp32 | copiesStates : 0;
}

enum class Transpose : uint8_t { none, transposed, conjugate };
inline char letter(Transpose transpose)
{
	const auto index = static_cast<unsigned>(transpose); // unchecked: may not be an enumerator
	return index < 3 ? "NTC"[index] : '?';
}

// Reason why a call is never lowered under any policy, as far as its arguments show it. `none`: the policy decides. The
// names are the reasons of reports (docs/report-json.md); policy::Reason repeats them.
enum class Obstacle : uint8_t {
	none,
	not_float32,
	float64,
	already_low,
	emulated_fp32,
	zero_size,
	bad_argument,
	pedantic,
	vendor_caller,
	solver_caller,
	unsupported,
	vector_op,
	matrix_vector,
	triangular,
	rank_update,
	symmetric,
	complex,
	copy,
	grouped,
	factorization,
	host_blocked,
	no_fp32_output,
	graph,
	native_graph,
	unknown_graph,
	unseen_graph,
	softmax,
	normalization,
	pooling,
	elementwise,
	reduction,
	loss,
	sampling,
};

// Argument, mode or variable that causes an obstacle, or that permits the requested arithmetic. X(name, text in
// reports).
#define AUTOAMP_CAUSES(X)                                                                                              \
	X(compute_fast_16f, "CUBLAS_COMPUTE_32F_FAST_16F")                                                                 \
	X(compute_fast_16bf, "CUBLAS_COMPUTE_32F_FAST_16BF")                                                               \
	X(compute_fast_tf32, "CUBLAS_COMPUTE_32F_FAST_TF32")                                                               \
	X(compute_pedantic, "CUBLAS_COMPUTE_32F_PEDANTIC")                                                                 \
	X(compute_emulated, "CUBLAS_COMPUTE_32F_EMULATED_16BFX9")                                                          \
	X(compute_half, "CUBLAS_COMPUTE_16F")                                                                              \
	X(math_tensor_op, "CUBLAS_TENSOR_OP_MATH")                                                                         \
	X(math_tf32, "CUBLAS_TF32_TENSOR_OP_MATH")                                                                         \
	X(math_pedantic, "CUBLAS_PEDANTIC_MATH")                                                                           \
	X(math_emulated, "CUBLAS_FP32_EMULATED_BF16X9_MATH")                                                               \
	X(variable_emulated, "CUBLAS_EMULATE_SINGLE_PRECISION=1")                                                          \
	X(dnn_default, "CUDNN_DEFAULT_MATH, which allows TF32")                                                            \
	X(dnn_tensor_op, "CUDNN_TENSOR_OP_MATH")                                                                           \
	X(dnn_conversion, "CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION")                                                         \
	X(dnn_fma, "CUDNN_FMA_MATH")                                                                                       \
	X(plan_engine, "an engine of the plan that runs on tensor cores")                                                  \
	X(half_operands, "16-bit operands")                                                                                \
	X(arrays, "operands given by arrays of pointers, whose alignment is unknown")                                      \
	X(operand_sums, "an epilogue that sums an operand (BGRADA, BGRADB)")                                               \
	X(no_getters, "a library without functions that read handles or descriptors")                                      \
	X(overlap, "a batch whose results overlap")                                                                        \
	X(batch_beta, "a batch with beta other than 0")                                                                    \
	X(strides, "a negative stride, or a batch of 2^31 or more")                                                        \
	X(vector_scalars, "a pointer mode with a vector of scalars")                                                       \
	X(matrix_order, "a matrix order other than COL and ROW, or C and D of different orders")                           \
	X(attribute, "a descriptor attribute that differs from its default")                                               \
	X(scale_type, "a scale type other than that of the results")                                                       \
	X(result_types, "C and D of different types")                                                                      \
	X(epilogue_layout, "an epilogue on results stored by rows, or on a batch by pointers")                             \
	X(epilogue, "the epilogue or its arguments")                                                                       \
	X(activation, "the activation, bias or z of a fused convolution")                                                  \
	X(tensor_layout, "tensors whose elements overlap or have no fixed order")                                          \
	X(in_place, "an operand that is also the result")                                                                  \
	X(geometry, "more convolution geometries than autoamp stores")                                                     \
	X(persist_dynamic, "CUDNN_RNN_ALGO_PERSIST_DYNAMIC")                                                               \
	X(variant_pack, "a variant pack with unknown attributes")                                                          \
	X(dnn_math_type, "a math type that cuDNN does not support for this operation")                                     \
	X(cpu_type, "float16 or TF32, which no CPU product has")

enum class Cause : uint8_t {
	none,
#define X(name, words) name,
	AUTOAMP_CAUSES(X)
#undef X
};

// Null for none.
inline const char *name(Cause cause)
{
	static constexpr const char *names[] = {nullptr,
#define X(name, words) words,
	                                        AUTOAMP_CAUSES(X)
#undef X
	};
	return names[static_cast<unsigned>(cause)];
}

// Op::device of calls of a CPU BLAS. GPUs have the numbers below it.
constexpr uint16_t cpuDevice = 0xfffe;

// Sizes have 64 bits because the `_64` entry points pass them. Matrices are column-major, as in cuBLAS, unless an
// op::Flag says otherwise. Zero-initialised, no padding: hashed and compared as bytes.
struct Op {
	uint16_t entry = 0; // row of the entry tables (inject/*.entries): index of entry::entryTable
	Library library = Library::cublas;
	Kind kind = Kind::none;
	Obstacle obstacle = Obstacle::none;
	Dtype a = Dtype::none, b = Dtype::none, out = Dtype::none; // as stored
	Dtype asked = Dtype::none; // arithmetic that the application permits: float32, tf32, or a 16-bit type
	Transpose transa = Transpose::none, transb = Transpose::none;
	uint8_t epilogue = 0; // op::Epilogue of cublasLtMatmul
	uint16_t device = 0;
	uint16_t flags = 0;                                         // op::Flag
	int64_t m = 0, n = 0, k = 0;                                // C is m x n, op(A) m x k, op(B) k x n
	int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0;                 // elements
	int64_t stridea = 0, strideb = 0, stridec = 0, strided = 0; // elements between the matrices of a batch
	int32_t batch = 1;
	uint16_t caller = 0; // object file that made the call: core::callerName()
	Cause cause = Cause::none;
	uint8_t reserved = 0;
	uint32_t geometry = 0; // number of the geometry (convolution.h); m, n, k are the implicit product of a convolution,
	                       // batch its groups
	uint32_t graph = 0;    // number of the graph of a cuDNN plan (graph_description.h)
};
static_assert(std::is_trivially_copyable_v<Op> && sizeof(Op) % 8 == 0);

// Effects of an epilogue in addition to writing D.
enum EpilogueEffect : uint8_t {
	addsBias = 1,
	writesGradient = 2, // gradient of the bias, computed from D
	sumsOperand = 4,    // gradient of the bias, from op(A) or op(B), summed over k
	hasMatrix = 8,      // an auxiliary matrix of D's shape
	hasMask = 16,       // one auxiliary bit per element
};
#define AUTOAMP_EPILOGUES(X)                                                                                           \
	X(none, DEFAULT, 0)                                                                                                \
	X(bias, BIAS, addsBias)                                                                                            \
	X(relu, RELU, 0)                                                                                                   \
	X(relu_bias, RELU_BIAS, addsBias)                                                                                  \
	X(gelu, GELU, 0)                                                                                                   \
	X(gelu_bias, GELU_BIAS, addsBias)                                                                                  \
	X(relu_aux, RELU_AUX, hasMask)                                                                                     \
	X(relu_aux_bias, RELU_AUX_BIAS, hasMask | addsBias)                                                                \
	X(gelu_aux, GELU_AUX, hasMatrix)                                                                                   \
	X(gelu_aux_bias, GELU_AUX_BIAS, hasMatrix | addsBias)                                                              \
	X(drelu, DRELU, hasMask)                                                                                           \
	X(drelu_bgrad, DRELU_BGRAD, hasMask | writesGradient)                                                              \
	X(dgelu, DGELU, hasMatrix)                                                                                         \
	X(dgelu_bgrad, DGELU_BGRAD, hasMatrix | writesGradient)                                                            \
	X(bgrada, BGRADA, sumsOperand)                                                                                     \
	X(bgradb, BGRADB, sumsOperand)

enum class Epilogue : uint8_t {
#define X(name, vendor, effects) name,
	AUTOAMP_EPILOGUES(X)
#undef X
	    other
};

// The effects of the epilogue, as bits of EpilogueEffect.
inline unsigned epilogueEffects(const Op &op)
{
	static constexpr unsigned effects[] = {
#define X(name, vendor, effects) effects,
	    AUTOAMP_EPILOGUES(X)
#undef X
	        0};
	return effects[op.epilogue];
}

enum Flag : uint16_t {
	flagDeviceScalars = 1, // alpha and beta are in device memory, which autoamp does not read
	flagBetaZero = 2,      // host beta is 0: the vendor does not read C
	flagAlphaZero = 4,     // host alpha is 0: the vendor need not read A and B
	flagNoC = 8,           // C is null (beta 0)
	flagArrays = 16,       // A, B, C and D are arrays of pointers in device memory, which autoamp does not read
	flagRowA = 32,         // A is row-major
	flagRowB = 64,
	flagRowD = 128,     // C and D are row-major
	flagHalfSums = 256, // float16 operands and sums; alpha and beta are float16 too
	// Precision that a call must have because of data that an earlier call left (the reserve space of an RNN).
	flagMustBeLow = 512,     // an earlier call left it in bfloat16
	flagMustNotBeLow = 1024, // an earlier call that was not lowered left it, or an unknown call
};

inline bool isLow(Dtype type)
{
	return type == Dtype::float16 || type == Dtype::bfloat16;
}

inline bool isComplex(Dtype type)
{
	return type == Dtype::complex64 || type == Dtype::complex128;
}

inline double flops(const Op &op)
{
	return (isComplex(op.a) ? 8.0 : 2.0) * static_cast<double>(op.m) * static_cast<double>(op.n) *
	       static_cast<double>(op.k) * op.batch;
}

// True if no two results of a batch share an element. The results are consecutive, or adjacent in the columns of one
// matrix (as attention heads are).
inline bool areApart(const Op &op)
{
	const bool isByRows = op.flags & flagRowD;
	const int64_t across = isByRows ? op.n : op.m, along = isByRows ? op.m : op.n;
	return op.batch < 2 || (op.flags & flagArrays) || op.strided >= op.ldd * (along - 1) + across ||
	       (op.strided >= across && op.strided <= (op.ldd - across) / (op.batch - 1));
}

inline bool operator==(const Op &x, const Op &y)
{
	return std::memcmp(&x, &y, sizeof(Op)) == 0;
}

} // namespace autoamp::op
