// The methods of lowering that self-tests check, and the errors that their rounding causes. Used before the first
// lowered call of a method (src/lower/self_test.h) and by `autoamp doctor --self-test`.
#pragma once

#include "src/policy/decision.h"

namespace autoamp::policy {

enum class TestedLibrary : uint8_t { cublasLt, cudnn };
constexpr unsigned testedLibraries = 2;

// error: the largest relative Frobenius error. A cast rounds to nearest, and the relative error of a sum of products
// stays below twice the unit roundoff. The vendor may also truncate, and may multiply FAST_16F in TF32, FAST_16BF in
// TF32 or bfloat16. leastError: 16-bit operands must cause an error; the other compute types permit fp32.
struct TestedPath {
	const char *name;
	TestedLibrary library;
	Strategy strategy;
	op::Dtype precision;
	double error, leastError;
};
constexpr double errorOfHalf = 1.0 / (1 << 10), errorOfBfloat16 = 1.0 / (1 << 7);
constexpr TestedPath testedPaths[] = {
    {"cast to float16", TestedLibrary::cublasLt, Strategy::cast, op::Dtype::float16, errorOfHalf, errorOfHalf / 16},
    {"cast to bfloat16", TestedLibrary::cublasLt, Strategy::cast, op::Dtype::bfloat16, errorOfBfloat16,
     errorOfBfloat16 / 16},
    {"tf32", TestedLibrary::cublasLt, Strategy::tf32, op::Dtype::tf32, 2 * errorOfHalf, 0},
    {"library in float16", TestedLibrary::cublasLt, Strategy::library, op::Dtype::float16, 2 * errorOfHalf, 0},
    {"library in bfloat16", TestedLibrary::cublasLt, Strategy::library, op::Dtype::bfloat16, 2 * errorOfBfloat16, 0},
    {"convolution cast to float16", TestedLibrary::cudnn, Strategy::cast, op::Dtype::float16, errorOfHalf,
     errorOfHalf / 16},
    {"convolution cast to bfloat16", TestedLibrary::cudnn, Strategy::cast, op::Dtype::bfloat16, errorOfBfloat16,
     errorOfBfloat16 / 16},
};

} // namespace autoamp::policy
