// cublas*gemm* calls in our words. Any thread; reads the arguments and, in host pointer mode, alpha and beta.
#pragma once

#include "src/op/arguments.h"
#include "src/op/entry.h"
#include "src/op/handle.h"
#include "src/op/op.h"

#include <cstring>

namespace autoamp::op {

// What the process's environment says about the arithmetic of fp32 products, whatever the handle says.
struct VendorEnvironment {
	bool tf32Allowed = true;     // false: NVIDIA_TF32_OVERRIDE=0
	bool emulatesSingle = false; // CUBLAS_EMULATE_SINGLE_PRECISION=1
};

// Is this a cublasGemmAlgo_t? The choice among them has no effect since sm_80, but the vendor may refuse other values.
bool isAlgorithm(int algo);

// `index` is the entry's row.
Op describe(const Entry &entry, uint16_t index, const GemmCall &call, const HandleModes &modes,
            const VendorEnvironment &environment);
Op describe(const Entry &entry, uint16_t index, const PlainCall &call);

// The groups as the one batch that they are where they are alike (a single one is); else with mixedGroups as `lda`.
GemmCall batchOf(const GroupedCall &call);
constexpr int64_t mixedGroups = INT64_MIN;

// cudaDataType in our words.
Dtype dtypeOf(int cudaType);

// cublasOperation_t in our words; of what the vendor refuses anyway, `none`: reports index by it.
Transpose transposeOf(int operation);

// How a compute type (-1: the entry has none) and a handle's math mode let fp32 data be multiplied.
struct Arithmetic {
	Dtype asked;
	Obstacle obstacle;
	Cause cause = Cause::none;
};
Arithmetic arithmeticOf(int computeType, int mathMode, const VendorEnvironment &environment);

// `none` for fp32 in and out.
Obstacle typeObstacle(Dtype a, Dtype b, Dtype out);

// The same of a product; `none` also for float16 in and out, summed in that type: sets flagHalfSums.
Obstacle typeObstacle(Op &op, int computeType);

// An fp32 product that the application itself allows to be rounded to 16 bits: as it was asked, unless a rule wants
// fp32.
inline bool isNarrowed(const Op &op)
{
	return op.obstacle == Obstacle::already_low && op.a == Dtype::float32;
}

// Not even an element begins there: whatever the vendor makes of such a call is its own.
inline bool isMisaligned(const void *pointer, const Op &op)
{
	return reinterpret_cast<uintptr_t>(pointer) % (op.flags & flagHalfSums ? sizeof(uint16_t) : sizeof(float)) != 0;
}

// A host scalar, by its bits: a program that treats subnormal numbers as 0 would make one of an alpha that is none, for
// every later call of the signature.
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

// Whether the groups of a batch have the same host scalars, by their bits.
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
