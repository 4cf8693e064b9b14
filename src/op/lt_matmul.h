// Describes calls of cublasLtMatmul as an Op. The application's descriptors are read at each call through the
// documented getters, which also accept descriptors on its stack and of older library versions. Any thread.
#pragma once

#include "src/op/arguments.h"
#include "src/op/gemm.h"
#include "src/op/op.h"
#include "src/op/vendor.h"

namespace autoamp::op {

Op describe(const Entry &entry, uint16_t index, const LtMatmulCall &call, const CublasLt *lt,
            const VendorEnvironment &environment);

// Attributes that the lowered call copies from the application's descriptor. An attribute that an older, shorter
// descriptor lacks has its default.
struct LtExtras {
	uint64_t bias = 0; // device address of the bias or its gradient
	int64_t biasBatchStride = 0;
	int32_t smCountTarget = 0;
	uint64_t aux = 0; // read only if the epilogue has an auxiliary matrix or mask
	int64_t auxLd = 0, auxBatchStride = 0;
};
bool readExtras(const CublasLt &lt, const void *computeDesc, const Op &op, LtExtras &extras);

} // namespace autoamp::op
