// The waist of the house: one intercepted call in our words, as values. Plain data, no pointers into the application.
// Any thread. Whoever describes a call fills it; policy, reroute and trace read it and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace autoamp::op {

enum class Library : uint8_t { cublas, cublaslt, cudnn };

// What the elements are. tf32 is never stored: it says how fp32 data may be multiplied.
enum class Dtype : uint8_t { none, float32, float16, bfloat16, tf32, float64, complex64, other };

// As reports spell it; null for none.
inline const char *name(Dtype dtype)
{
	static constexpr const char *names[] = {nullptr, "float32", "float16",   "bfloat16",
	                                        "tf32",  "float64", "complex64", "other"};
	return names[static_cast<unsigned>(dtype)];
}

// torch's names (interface.md section 5); `none` for entry points that no op of a list system reaches.
enum class Kind : uint8_t { none, mm, addmm, bmm, mv };

enum class Transpose : uint8_t { none, transposed, conjugate };

// What the door alone can say about a call that is never lowered, whatever the policy is. `none`: the policy decides.
// The names are reasons of interface.md section 5; policy::Reason has the same ones.
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
};

// 64-bit sizes: the `_64` twins pass them. Column-major as the vendor counts. Zero-initialised, no padding: hashed and
// compared as bytes.
struct Op {
	uint16_t entry = 0; // row of the entry tables (inject/*.entries), see entry::name()
	Library library = Library::cublas;
	Kind kind = Kind::none;
	Obstacle obstacle = Obstacle::none;
	Dtype a = Dtype::none, b = Dtype::none, out = Dtype::none; // as stored
	Dtype asked = Dtype::none; // how the application allows it to be multiplied: float32, tf32, or a 16-bit type
	Transpose transa = Transpose::none, transb = Transpose::none;
	uint8_t epilogue = 0; // of cublasLtMatmul: op::Epilogue
	uint16_t device = 0;
	uint16_t flags = 0;                                         // op::Flag
	int64_t m = 0, n = 0, k = 0;                                // C is m x n, op(A) m x k, op(B) k x n
	int64_t lda = 0, ldb = 0, ldc = 0, ldd = 0;                 // elements
	int64_t stridea = 0, strideb = 0, stridec = 0, strided = 0; // elements between the matrices of a batch
	int32_t batch = 1;
	uint32_t caller = 0; // object file that made the call: caller::name()
};
static_assert(std::is_trivially_copyable_v<Op> && sizeof(Op) % 8 == 0);

enum class Epilogue : uint8_t { none, bias, relu, relu_bias, other };

enum Flag : uint16_t {
	flagDeviceScalars = 1, // alpha and beta live on the device: never read here
	flagBetaZero = 2,      // host beta is 0: C is not read
	flagAlphaZero = 4,     // host alpha is 0: the vendor may not read A and B
	flagNoC = 8,           // C is null (beta 0)
	flagArrays = 16,       // A, B and C are arrays of pointers on the device: what they hold is not known here
	flagHalfSums = 256,    // float16 summed in float16, alpha and beta of that type
};

inline double flops(const Op &op)
{
	return 2.0 * static_cast<double>(op.m) * static_cast<double>(op.n) * static_cast<double>(op.k) * op.batch;
}

inline bool operator==(const Op &x, const Op &y)
{
	return std::memcmp(&x, &y, sizeof(Op)) == 0;
}

} // namespace autoamp::op
