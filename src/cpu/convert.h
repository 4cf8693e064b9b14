// Conversion of fp32 matrices to packed bfloat16, and sums of results, with AVX-512. Any thread; needs bf16Unit() !=
// none.
#pragma once

#include <cstdint>

namespace autoamp::cpu {

// A matrix as stored: `lines` lines of `length` contiguous elements, `ld` elements apart. Lines are the columns of a
// column-major matrix. `source` needs no alignment.
struct Matrix {
	const float *source;
	int64_t length, lines, ld;

	int64_t elements() const { return length * lines; }
};

// Converts elements [begin, end) of the packed matrix, without the gaps, to `target` + begin. The values are those of
// the CUDA side (kernels/cast.cuh): the nearest bfloat16, ties to even, except that a finite value becomes at most the
// largest finite bfloat16. Inf and NaN remain; NaN is quiet. Denormals become zero, as which the instructions of
// the products read them. The result does not depend on the floating-point environment, and no exception flag changes.
void convert(const Matrix &matrix, int64_t begin, int64_t end, uint16_t *target);

// Rounds to the nearest bfloat16, ties to even. Large finite values become Inf, as in the frameworks.
void roundToBfloat16(float *values, int64_t count);

// target = scale * target + source
void addScaled(float *target, float scale, const float *source, int64_t count);

} // namespace autoamp::cpu
