// Describes calls of cublas*gemm* as an Op. Any thread. Reads the arguments and, in host pointer mode, alpha and beta.
#pragma once

#include "src/op/arguments.h"
#include "src/op/entry.h"
#include "src/op/handle.h"
#include "src/op/op.h"

#include <cstring>

namespace autoamp::op {

// Environment variables that change the arithmetic of fp32 products whatever the handle is set to.
struct VendorEnvironment {
	bool tf32Allowed = true;     // false: NVIDIA_TF32_OVERRIDE=0
	bool emulatesSingle = false; // CUBLAS_EMULATE_SINGLE_PRECISION=1
};

// True if `algo` is a value of cublasGemmAlgo_t. Since sm_80 its choice has no effect, but the vendor may refuse other
// values.
bool isAlgorithm(int algo);

// `index`: row of the entry in the entry tables.
Op describe(const Entry &entry, uint16_t index, const GemmCall &call, const HandleModes &modes,
            const VendorEnvironment &environment);
Op describe(const Entry &entry, uint16_t index, const PlainCall &call);

// Returns the groups as one batch if they have the same transposes, sizes and leading dimensions (a single group does).
// Otherwise sets `lda` to mixedGroups.
GemmCall batchOf(const GroupedCall &call);
constexpr int64_t mixedGroups = INT64_MIN;

// Converts a cudaDataType.
Dtype dtypeOf(int cudaType);

// Converts a cublasOperation_t. Values that the vendor refuses become `none`, because reports index a table by the
// result.
Transpose transposeOf(int operation);

// Arithmetic for fp32 data under a compute type (-1: the entry point has none) and the math mode of a handle.
struct Arithmetic {
	Dtype asked;
	Obstacle obstacle;
	Cause cause = Cause::none;
};
Arithmetic arithmeticOf(int computeType, int mathMode, const VendorEnvironment &environment);

// `none` if operands and result are fp32.
Obstacle typeObstacle(Dtype a, Dtype b, Dtype out);

// The same for a product. Also `none` for float16 operands and result that are summed in float16; then sets
// flagHalfSums.
Obstacle typeObstacle(Op &op, int computeType);

// True for an fp32 product that the application itself permits to be rounded to 16 bits. It runs unchanged unless a
// rule requests fp32.
inline bool isNarrowed(const Op &op)
{
	return op.obstacle == Obstacle::already_low && op.a == Dtype::float32;
}

// True if no element can begin at this address. Such a call goes to the vendor unchanged.
inline bool isMisaligned(const void *pointer, const Op &op)
{
	return reinterpret_cast<uintptr_t>(pointer) % (op.flags & flagHalfSums ? sizeof(uint16_t) : sizeof(float)) != 0;
}

// True if a host scalar is 0 by its bits. A floating-point comparison would take a subnormal alpha for 0 in a program
// that flushes subnormal numbers, for every later call of the signature.
inline bool isZero(const void *scalar, bool isHalf)
{
	uint32_t bits = 0;
	if (!isHalf) {
		std::memcpy(&bits, scalar, sizeof bits);
		return bits << 1 == 0;
	}
	std::memcpy(&bits, scalar, sizeof(uint16_t));
	return bits << 17 == 0;
}

// True if all groups of a batch have bitwise equal host scalars.
inline bool haveSameScalars(const GemmCall &call)
{
	const auto *alpha = static_cast<const char *>(call.alpha), *beta = static_cast<const char *>(call.beta);
	for (int64_t i = 1; i < call.groups; i++)
		if (std::memcmp(alpha + i * 4, alpha, sizeof(float)) != 0 ||
		    std::memcmp(beta + i * 4, beta, sizeof(float)) != 0)
			return false;
	return true;
}

} // namespace autoamp::op
