#include "tests/unit/kernels_unsynchronized.h"

#include "tools/emulated/simt.h"

#define __syncthreads() static_cast<void>(0)
#include "kernels/cast.cuh"

using namespace autoamp::kernels;

void unsynchronizedCastHalf(const Parameters &parameters, unsigned blocks)
{
	simt::run(dim3(blocks), dim3(blockSize), [&] { autoamp_cast_half(parameters); });
}

void unsynchronizedSum(const Sum &parameters, unsigned blocks)
{
	simt::run(dim3(blocks), dim3(blockSize), [&] { autoamp_sum(parameters); });
}

void unsynchronizedPlace(const Placement &parameters, unsigned blocks)
{
	simt::run(dim3(blocks), dim3(blockSize), [&] { autoamp_place(parameters); });
}

int64_t quotient(int64_t dividend, int64_t divisor)
{
	return quotientOf(dividend, divisor);
}

std::array<uint32_t, 3> splitIndex(uint32_t index, int64_t inner, int64_t middle)
{
	const SplitIndex split(index, inner, middle);
	return {split.inner, split.middle, split.outer};
}
