#include "check.h"

#include "blas.h"

#include <cmath>

namespace {

constexpr Int m = 40, n = 30, k = 20;

float a(Int i, Int l)
{
	return static_cast<float>(1 + (i * 7 + l * 3) % 11) / 7;
}

float b(Int l, Int j)
{
	return static_cast<float>(1 + (l * 5 + j) % 13) / 9;
}

char classOf(const float *C, Int rows, Int columns, Int depth)
{
	double error = 0, negated = 0, norm = 0;
	for (Int j = 0; j < columns; j++)
		for (Int i = 0; i < rows; i++) {
			double sum = 0;
			for (Int l = 0; l < depth; l++)
				sum += static_cast<double>(a(i, l)) * b(l, j);
			error += std::pow(C[i + j * rows] - sum, 2), negated += std::pow(C[i + j * rows] + sum, 2),
			    norm += sum * sum;
		}
	error = std::sqrt(error / norm), negated = std::sqrt(negated / norm);
	return error < 1e-6 ? 'e' : error > 1e-4 && error < 1e-2 ? 'r' : negated < 1e-6 ? 'n' : 'w';
}

} // namespace

char check(void *cblas, void *fortran)
{
	float A[m * k], B[k * n], C[m * n];
	for (Int l = 0; l < k; l++) {
		for (Int i = 0; i < m; i++)
			A[i + l * m] = a(i, l);
		for (Int j = 0; j < n; j++)
			B[l + j * k] = b(l, j);
	}
	const auto clear = [&] {
		for (float &element : C)
			element = -7;
	};
	clear();
	char result[3] = {};
#ifdef WIDE
	reinterpret_cast<CblasGemm *>(cblas)(columnMajor, noTrans, noTrans, m, n, k, 1, A, m, B, k, 0, C, m);
	result[0] = classOf(C, m, n, k);
	// Columns that do not exist. An integer of 32 bits would be 0, which is not valid.
	constexpr Int huge = Int{1} << 32;
	clear();
	reinterpret_cast<CblasGemm *>(cblas)(columnMajor, noTrans, noTrans, m, 1, 1, 1, A, huge, B, huge, 0, C, huge);
	result[1] = classOf(C, m, 1, 1);
#else
	using Wide = void(Int, Int, Int, std::int64_t, std::int64_t, std::int64_t, float, const float *, std::int64_t,
	                  const float *, std::int64_t, float, float *, std::int64_t);
	constexpr std::int64_t junk = 0x7654321000000000; // the upper halves of registers are undefined
	reinterpret_cast<Wide *>(cblas)(columnMajor, noTrans, noTrans, m | junk, n | junk, k | junk, 1, A, m | junk, B,
	                                k | junk, 0, C, m | junk);
	result[0] = result[1] = classOf(C, m, n, k);
#endif
	clear();
	const Int sizes[] = {m, n, k, 1};
	const float one = 1, zero = 0;
	reinterpret_cast<Gemm *>(fortran)("N", "N", &sizes[0], &sizes[1], &sizes[2], &one, A, &sizes[0], B, &sizes[2],
	                                  &zero, C, &sizes[0], 1, 1);
	result[2] = classOf(C, m, n, k);
	return result[0] == result[1] && result[0] == result[2] ? result[0] : 'w';
}
