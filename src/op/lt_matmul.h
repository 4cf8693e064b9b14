// cublasLtMatmul in our words: the application's descriptors are read at call time through the documented getters, so
// also those on its stack and those of an older library's size. Any thread.
#pragma once

#include "src/op/arguments.h"
#include "src/op/gemm.h"
#include "src/op/op.h"
#include "src/op/vendor.h"

namespace autoamp::op {

Op describe(const Entry &entry, uint16_t index, const LtMatmulCall &call, const CublasLt *lt,
            const VendorEnvironment &environment);

// What the lowered call carries over from the application's descriptor (never a null pointer's worth of guessing: an
// attribute that the application's descriptor is too short for has its default).
struct LtExtras {
	uint64_t bias = 0; // device address, of a gradient as well
	int64_t biasBatchStride = 0;
	int32_t smCountTarget = 0;
	uint64_t aux = 0; // read where the epilogue has one
	int64_t auxLd = 0, auxBatchStride = 0;
};
bool readExtras(const CublasLt &lt, const void *computeDesc, const Op &op, LtExtras &extras);

} // namespace autoamp::op
