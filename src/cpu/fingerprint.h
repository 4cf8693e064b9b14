// Fingerprints of the content of a matrix, without the gaps. Any thread; needs bf16Unit() != none.
#pragma once

#include "src/cpu/convert.h"

#include <cstdint>

namespace autoamp::cpu {

// Covers all elements. Different contents have different fingerprints, except with a probability near 2^-63.
uint64_t fingerprint(const Matrix &matrix);

// Covers a few elements, spread over the matrix.
uint64_t sample(const Matrix &matrix);

} // namespace autoamp::cpu
