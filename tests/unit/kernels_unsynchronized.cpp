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
