// The result of a decision: precision and method of a call, and the reason. Values only. Any thread.
#pragma once

#include "src/config/options.h"
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
	X(custom_black_list, "AUTOAMP_CUSTOM_BLACK_LIST names it", "remove it from AUTOAMP_CUSTOM_BLACK_LIST")             \
	X(rule, "a rule of the configuration matches", "autoamp report --report config shows the rules")                   \
	X(unlisted, "on no list: lowered by MindSpore's O2 and O3 (Paddle's O2 without promotion), else unchanged",        \
	  "name it in a custom list to lower or keep it")                                                                  \
	X(promote, "the op runs in the widest type of its operands", "")                                                   \
	X(banned, "the list system forbids the op in lower precision", "")                                                 \
	X(region_disabled,                                                                                                 \
	  "a region of the program disables lowering, or AUTOAMP_SCOPE requires a region and none is open", "")            \
	X(disabled, "switched off: autoamp, lowering (AUTOAMP_STRATEGY=fp32), or TF32 (NVIDIA_TF32_OVERRIDE=0)",           \
	  "unset AUTOAMP_STRATEGY=fp32 or NVIDIA_TF32_OVERRIDE=0, whichever is set")                                       \
	X(not_float32, "the operands are not fp32", "")                                                                    \
	X(float64, "the operands are fp64: never lowered", "")                                                             \
	X(already_low, "the operands are 16-bit, or the call already allows precision as low as the configured one", "")   \
	X(emulated_fp32, "the application requests fp32 emulation (BF16x9), which autoamp respects", "")                   \
	X(zero_size, "m, n, k, the batch or alpha is 0: nothing to multiply", "")                                          \
	X(bad_argument, "the vendor library rejects these arguments", "")                                                  \
	X(too_small, "too little work: the fixed time of a conversion exceeds that of the product",                        \
	  "batch small products")                                                                                          \
	X(not_profitable, "the cost model expects no gain on this device",                                                 \
	  "set AUTOAMP_STRATEGY to a method to lower it anyway")                                                           \
	X(pedantic, "the application requires exact fp32 (PEDANTIC math)", "")                                             \
	X(nested, "a call made inside another intercepted call", "")                                                       \
	X(vendor_caller, "made by an NVIDIA library, not by the application", "")                                          \
	X(solver_caller, "made by a factorization that needs fp32 (LAPACK, MAGMA, torch.linalg, SLATE)", "")               \
	X(capture_unready, "captured before any lowered call had run in this context", "run one step before capturing")    \
	X(out_of_memory, "no memory for converted operands", "free memory, or lower AUTOAMP_MEMORY")                       \
	X(no_memory_pools, "the device has no memory pools, which converted operands need", "")                            \
	X(memory_budget, "converted operands would exceed AUTOAMP_MEMORY or, on a GPU, a quarter of the free memory",      \
	  "raise AUTOAMP_MEMORY")                                                                                          \
	X(uncured,                                                                                                         \
	  "an earlier product of this signature lost small values in float16, and AUTOAMP_SCALING=strict could not "       \
	  "repair it",                                                                                                     \
	  "a rule of tf32 or float32 for these calls, or AUTOAMP_DTYPE=bfloat16")                                          \
	X(unsupported, "a feature of the call that the lowered path does not support", "")                                 \
	X(no_fp32_output, "the vendor library has no lower-precision engine with fp32 output for this call",               \
	  "bfloat16 for convolutions; channels-last tensors for graphs with nodes other than a sum and ReLU")              \
	X(strict_scaling, "AUTOAMP_SCALING=strict checks cuBLAS products; it keeps cuDNN calls from float16",              \
	  "set AUTOAMP_DTYPE=bfloat16, or AUTOAMP_SCALING=auto")                                                           \
	X(driver_too_old, "the driver cannot load autoamp's kernels",                                                      \
	  "update the driver (525 or newer; see autoamp doctor)")                                                          \
	X(weight_not_kept,                                                                                                 \
	  "few rows: the product gains once its weight has stayed unchanged for three products and is kept", "")           \
	X(no_onednn, "the process exits, and oneDNN, which multiplies on a CPU with AMX, can no longer be used", "")       \
	X(forked_inside,                                                                                                   \
	  "the process was forked while another thread multiplied in bfloat16: the child may wait for that thread's lock", \
	  "fork while no thread multiplies, or start the child as a program of its own (exec)")                            \
	X(gpu_too_old, "the GPU has no tensor cores for this type", "set AUTOAMP_DTYPE=float16")                           \
	X(cpu_too_old, "the CPU has no bfloat16 arithmetic (AVX512-BF16)", "run it on a CPU with AVX512-BF16")             \
	X(second_copy,                                                                                                     \
	  "a second copy of the library in the process, not intercepted; only lookups and first calls are counted", "")    \
	X(engine_failed, "a library call of the lowered path failed", "run with AUTOAMP_LOG=info")                         \
	X(self_test_failed, "a self-test of autoamp on this device was wrong or did not end",                              \
	  "autoamp's message on stderr names the test; report it with GPU and driver")                                     \
	X(vector_op, "a vector operation: bound by memory, not by arithmetic", "")                                         \
	X(matrix_vector, "a matrix-vector product: bound by memory", "batch the vectors into one matrix product")          \
	X(triangular, "a triangular solve or product: only a math mode of the program's cuBLAS handle can lower it",       \
	  "on a GPU, set CUBLAS_TF32_TENSOR_OP_MATH in the program")                                                       \
	X(rank_update, "a rank update: only a math mode of the program's cuBLAS handle can lower it",                      \
	  "on a GPU, set CUBLAS_TF32_TENSOR_OP_MATH in the program")                                                       \
	X(symmetric, "a symmetric product: only a math mode of the program's cuBLAS handle can lower it",                  \
	  "on a GPU, set CUBLAS_TF32_TENSOR_OP_MATH in the program")                                                       \
	X(complex, "the operands are complex: never lowered", "")                                                          \
	X(copy, "a copy, transposition or scaling: no arithmetic to lower", "")                                            \
	X(grouped, "a grouped batch whose groups differ", "make a separate batch of each group")                           \
	X(factorization, "a factorization or inversion: needs fp32", "")                                                   \
	X(host_blocked, "cublasXt: the operands are host memory", "")                                                      \
	X(graph, "a cuDNN graph other than one fp32 product with pointwise nodes", "")                                     \
	X(native_graph, "a cuDNN plan that the program adds to a CUDA graph through cuDNN", "")                            \
	X(unknown_graph, "a cuDNN plan whose description autoamp cannot read", "")                                         \
	X(unseen_graph, "a cuDNN plan or variant pack that was created without interception", "")                          \
	X(softmax, "a softmax: bound by memory, and its sums need fp32", "")                                               \
	X(normalization, "a normalization: bound by memory, and its sums need fp32", "")                                   \
	X(pooling, "pooling: no product to lower", "")                                                                     \
	X(elementwise, "an elementwise operation: bound by memory", "")                                                    \
	X(reduction, "a reduction: its sums need fp32", "")                                                                \
	X(loss, "a loss: needs fp32", "")                                                                                  \
	X(sampling, "a spatial transformer: no product to lower", "")                                                      \
	X(reserve_space,                                                                                                   \
	  "the backward pass of an RNN uses the precision of its forward pass, or that precision is unknown", "")

enum class Reason : uint8_t {
#define X(name, meaning, advice) name,
	AUTOAMP_REASONS(X)
#undef X
	    count
};

// Reasons why a CUDA call that is cast keeps no copy of a weight. X(name in reports, meaning).
#define AUTOAMP_WEIGHT_OBSTACLES(X)                                                                                    \
	X(off, "each call converts its operands")                                                                          \
	X(recurrent, "the weights of recurrent networks are converted at each call")                                       \
	X(graph, "the operands of a matrix product in a cuDNN graph are converted at each call")                           \
	X(batched, "the operands of a batch are converted at each call")                                                   \
	X(no_filter, "the weight gradient of a convolution reads no filter")                                               \
	X(strict_scaling, "AUTOAMP_SCALING=strict may have to change both operands at each call")                          \
	X(too_small, "no operand that could be kept has 1 MiB of fp32")

enum class WeightObstacle : uint8_t {
#define X(name, meaning) name,
	AUTOAMP_WEIGHT_OBSTACLES(X)
#undef X
	    none
};

const char *name(WeightObstacle obstacle); // null for none, as for meaning()
const char *meaning(WeightObstacle obstacle);
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
	// The strategy of a call that cannot be cast because of a shortage (fp32: the call runs unchanged), and its
	// estimate.
	Strategy substitute = Strategy::fp32;
	float estimateSubstitute = -1;
	bool needsNoMemory = false; // the call must run without any device memory of autoamp
	// A CPU product that gains only with a kept bfloat16 copy of its weight: until there is one, it runs unchanged.
	bool needsKept = false;
	// With two pools of threads (mostSavedNs), ns that a CPU product saves which runs on our threads. Negative: one
	// that runs in the library loses as much by bfloat16, and uses it only if its thread has saved that time, or if a
	// weight that it needs is kept. 0: a product that neither saves nor needs saved time.
	float saved = 0;
	// For a lowered cast: operands that do not change are converted once. off: at each call.
	Weights weights = Weights::off;
	// For a cast on a GPU whose weights are off: why; none: a copy would not pay.
	WeightObstacle weightObstacle = WeightObstacle::none;

	bool needsSaved() const { return saved < 0 && !needsKept; }
	bool isUnchanged() const { return verdict != Verdict::lowered && verdict != Verdict::raised; }
	// The decision of a call that runs by the substitute. Its caller has checked that there is one.
	Decision substituted(Reason shortage) const;
};

// A cast that cannot run for one of these reasons, most of them shortages of memory, may run by its substitute. They
// are neighbours in the list.
constexpr unsigned shortageIndex(Reason reason)
{
	return static_cast<unsigned>(reason) - static_cast<unsigned>(Reason::capture_unready);
}
constexpr unsigned shortageCount = shortageIndex(Reason::uncured) + 1;
static_assert(shortageCount == 5 && shortageIndex(Reason::out_of_memory) == 1);
constexpr bool isShortage(Reason reason)
{
	return shortageIndex(reason) < shortageCount;
}

} // namespace autoamp::policy
