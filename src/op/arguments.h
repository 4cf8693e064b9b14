// The families of intercepted calls: the vendor's arguments by the header's own names, copied by the generated doors.
// Values of one call, on the caller's stack.
#pragma once

#include <cstddef>
#include <cstdint>

namespace autoamp::op {

// What a door is, from its row in the entry tables.
struct Entry {
	const char *name;
	uint16_t index;
	uint8_t library;  // op::Library
	uint8_t dtype;    // op::Dtype of the data; `none`: it stands in the arguments
	uint8_t obstacle; // op::Obstacle
};

// Every single and strided-batched GEMM. Types are cudaDataType, -1 where the entry's row says fp32.
struct GemmCall {
	void *handle = nullptr;
	int transa = 0, transb = 0;
	int64_t m = 0, n = 0, k = 0;
	const void *alpha = nullptr, *A = nullptr;
	int Atype = -1;
	int64_t lda = 0;
	long long int strideA = 0;
	const void *B = nullptr;
	int Btype = -1;
	int64_t ldb = 0;
	long long int strideB = 0;
	const void *beta = nullptr;
	void *C = nullptr;
	int Ctype = -1;
	int64_t ldc = 0;
	long long int strideC = 0;
	int64_t batchCount = 1;
	int computeType = -1;
};

struct LtMatmulCall {
	void *lightHandle = nullptr;
	const void *computeDesc = nullptr, *alpha = nullptr, *A = nullptr, *Adesc = nullptr, *B = nullptr, *Bdesc = nullptr,
	           *beta = nullptr, *C = nullptr, *Cdesc = nullptr;
	void *D = nullptr;
	const void *Ddesc = nullptr;
	void *stream = nullptr;
};

// Everything that is passed through: only its sizes are read.
struct PlainCall {
	void *handle = nullptr;
	int64_t m = 0, n = 0, k = 0;
};

} // namespace autoamp::op
