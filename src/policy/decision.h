// The result of a decision: precision and method of a call, and the reason. Values only. Any thread.
#pragma once

#include "src/op/op.h"
#include "src/op/shadow.h"

#include <cstdint>

namespace autoamp::policy {

// docs/reports.md describes them. Reports print the enumerator's name.
enum class Verdict : uint8_t { kept, lowered, raised, fallback, observed };
// fp32: the call runs unchanged. cast: on 16-bit copies of the operands. library, tf32: on the original operands, with
// the vendor library's FAST_16F or FAST_16BF, or FAST_TF32.
enum class Strategy : uint8_t { fp32, cast, library, tf32 };
constexpr unsigned strategyCount = static_cast<unsigned>(Strategy::tf32) + 1;

// The closed list of reasons. A row defines the enumerator, the word in reports, the line of `autoamp help reasons`
// (meaning) and advice for the user (empty: no advice).
#define AUTOAMP_REASONS(X)                                                                                             \
	X(white_list, "the op is on the list system's lower-precision list", "")                                           \
	X(black_list, "the op is on the list system's fp32 list", "add it to AUTOAMP_CUSTOM_WHITE_LIST")                   \
	X(custom_white_list, "AUTOAMP_CUSTOM_WHITE_LIST names it", "")                                                     \
	X(custom_black_list, "AUTOAMP_CUSTOM_BLACK_LIST names it", "take it off AUTOAMP_CUSTOM_BLACK_LIST")                \
	X(rule, "a rule of the configuration matches", "autoamp report --report config shows the rules")                   \
	X(unlisted, "on no list: lowered by MindSpore's O2 and O3 (Paddle's O2 without promotion), else as asked",         \
	  "a custom list that names it decides otherwise")                                                                 \
	X(promote, "the op runs in the widest type of its operands", "")                                                   \
	X(banned, "the list system refuses the op in lower precision", "")                                                 \
	X(region_disabled, "the program's region disables it, or AUTOAMP_SCOPE=regions outside of all", "")                \
	X(disabled, "switched off: autoamp, lowering (AUTOAMP_STRATEGY=fp32), or TF32 (NVIDIA_TF32_OVERRIDE=0)",           \
	  "unset AUTOAMP_STRATEGY=fp32 or NVIDIA_TF32_OVERRIDE=0, whichever is set")                                       \
	X(not_float32, "the operands are not fp32", "")                                                                    \
	X(float64, "the operands are fp64: never lowered", "")                                                             \
	X(already_low, "the operands are 16-bit or the call already allows arithmetic as low", "")                         \
	X(emulated_fp32, "the application asked for fp32 emulation (BF16x9): more precision, respected", "")               \
	X(zero_size, "m, n, k, the batch or alpha is 0: nothing to multiply", "")                                          \
	X(bad_argument, "the vendor's library refuses these arguments", "")                                                \
	X(too_small, "too little work: launching the conversion takes longer than the product", "batch small products")    \
	X(not_profitable, "the cost model expects no gain on this device", "a named AUTOAMP_STRATEGY lowers it anyway")    \
	X(pedantic, "the application demands exact fp32 (PEDANTIC math)", "")                                              \
	X(nested, "a call made inside another intercepted call", "")                                                       \
	X(vendor_caller, "made by an NVIDIA library, not by the application", "")                                          \
	X(solver_caller, "made by a factorisation that needs fp32 (MAGMA, torch.linalg, SLATE)", "")                       \
	X(capture_unready, "captured before any lowered call had run in this context", "run one step before capturing")    \
	X(out_of_memory, "no device memory for converted operands", "free device memory, or lower AUTOAMP_MEMORY")         \
	X(no_memory_pools, "the device has no memory pools, which converted operands need", "")                            \
	X(memory_budget, "converted operands would exceed AUTOAMP_MEMORY or a quarter of the free memory",                 \
	  "raise AUTOAMP_MEMORY")                                                                                          \
	X(unsupported, "a feature of the call that the lowered path does not support", "")                                 \
	X(no_fp32_output, "the vendor has no lower engine with fp32 output for it",                                        \
	  "a convolution has more of them in bfloat16; with other nodes than a sum and ReLU it needs channels-last "       \
	  "tensors")                                                                                                       \
	X(driver_too_old, "the driver cannot load our kernels", "update the driver (CUDA 13: 580 or newer)")               \
	X(gpu_too_old, "the GPU has no tensor cores for this type", "try AUTOAMP_DTYPE=float16")                           \
	X(second_copy, "a second copy of the library in the process, left alone: lookups and first calls", "")             \
	X(engine_failed, "a vendor call of the lowered path failed", "run with AUTOAMP_LOG=info")                          \
	X(vector_op, "a vector operation: bound by memory, not by arithmetic", "")                                         \
	X(matrix_vector, "a matrix-vector product: bound by memory", "batch the vectors into one matrix product")          \
	X(triangular, "a triangular solve or product: no lower form but a mode of the application's handle",               \
	  "set CUBLAS_TF32_TENSOR_OP_MATH in the program")                                                                 \
	X(rank_update, "a rank update: no lower form but a mode of the application's handle",                              \
	  "set CUBLAS_TF32_TENSOR_OP_MATH in the program")                                                                 \
	X(symmetric, "a symmetric product: no lower form but a mode of the application's handle",                          \
	  "set CUBLAS_TF32_TENSOR_OP_MATH in the program")                                                                 \
	X(complex, "the operands are complex: never lowered", "")                                                          \
	X(copy, "a copy, transposition or scaling: no arithmetic to lower", "")                                            \
	X(grouped, "a grouped batch of groups that differ", "make each group a batch of its own")                          \
	X(factorization, "a factorisation or inversion: needs fp32", "")                                                   \
	X(host_blocked, "cublasXt: the operands are host memory", "")                                                      \
	X(graph, "a graph of cuDNN's that is not one fp32 product with pointwise nodes", "")                               \
	X(native_graph, "cuDNN puts this plan into a CUDA graph itself", "")                                               \
	X(unknown_graph, "a plan of cuDNN's that describes itself in words not known here", "")                            \
	X(unseen_graph, "a plan or variant pack of cuDNN's that was made out of sight", "")                                \
	X(softmax, "a softmax: bound by memory, and fp32 where it sums", "")                                               \
	X(normalization, "a normalisation: bound by memory, and fp32 where it sums", "")                                   \
	X(pooling, "pooling: no product to lower", "")                                                                     \
	X(elementwise, "one element at a time: bound by memory", "")                                                       \
	X(reduction, "a reduction: a sum that needs fp32", "")                                                             \
	X(loss, "a loss: needs fp32", "")                                                                                  \
	X(sampling, "a spatial transformer: no product to lower", "")                                                      \
	X(reserve_space, "the backward pass of an RNN has the precision of its forward pass, or that is unknown", "")

enum class Reason : uint8_t {
#define X(name, meaning, advice) name,
	AUTOAMP_REASONS(X)
#undef X
	    count
};

const char *name(Verdict verdict);
const char *name(Strategy strategy);
const char *name(Reason reason);
const char *meaning(Reason reason);
const char *advice(Reason reason);

struct Decision {
	Verdict verdict = Verdict::kept; // never `fallback`, which is an outcome of a lowered decision
	Strategy strategy = Strategy::fp32;
	Reason reason = Reason::unlisted;
	op::Dtype precision = op::Dtype::float32;  // precision of the multiplication
	op::Form form = op::Form::none;            // for a convolution that is cast
	float estimate = -1, estimateLowered = -1; // ns by the cost model; negative: unknown
	// The strategy of a call that cannot be cast for lack of memory (fp32: the call runs unchanged), and its estimate.
	Strategy substitute = Strategy::fp32;
	float estimateSubstitute = -1;
	bool needsNoMemory = false; // the call must run without any device memory of autoamp

	bool isUnchanged() const { return verdict != Verdict::lowered && verdict != Verdict::raised; }
	// The decision of a call that runs by the substitute. Its caller has checked that there is one.
	Decision substituted(Reason shortage) const;
};

// A cast that failed for one of these reasons may run by its substitute. They are neighbours in the list.
constexpr unsigned shortageIndex(Reason reason)
{
	return static_cast<unsigned>(reason) - static_cast<unsigned>(Reason::capture_unready);
}
constexpr unsigned shortageCount = shortageIndex(Reason::memory_budget) + 1;
static_assert(shortageCount == 4 && shortageIndex(Reason::out_of_memory) == 1);
constexpr bool isShortage(Reason reason)
{
	return shortageIndex(reason) < shortageCount;
}

} // namespace autoamp::policy
