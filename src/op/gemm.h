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

// `index` is the entry's row.
Op describe(const Entry &entry, uint16_t index, const GemmCall &call, const HandleModes &modes,
            const VendorEnvironment &environment);
Op describe(const Entry &entry, uint16_t index, const PlainCall &call);

// cudaDataType in our words.
Dtype dtypeOf(int cudaType);

// cublasOperation_t in our words; of what the vendor refuses anyway, `none`: reports index by it.
Transpose transposeOf(int operation);

// How a compute type (-1: the entry has none) and a handle's math mode let fp32 data be multiplied.
struct Arithmetic {
	Dtype asked;
	Obstacle obstacle;
};
Arithmetic arithmeticOf(int computeType, int mathMode, const VendorEnvironment &environment);

// `none` for fp32 in and out.
Obstacle typeObstacle(Dtype a, Dtype b, Dtype out);

// Not even fp32 elements begin there: whatever the vendor makes of such a call is its own.
inline bool isMisaligned(const void *pointer)
{
	return reinterpret_cast<uintptr_t>(pointer) % alignof(float) != 0;
}

// A host scalar, by its bits: a program that treats subnormal numbers as 0 would make one of an alpha that is none, for
// every later call of the signature.
inline bool isZero(const void *scalar)
{
	uint32_t bits;
	std::memcpy(&bits, scalar, sizeof bits);
	return bits << 1 == 0;
}

} // namespace autoamp::op
