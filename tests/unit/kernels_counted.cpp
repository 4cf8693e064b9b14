#include "tests/unit/kernels_counted.h"

#include "tools/emulated/simt.h"

namespace {

thread_local const float *first;
thread_local unsigned count;

template <class T>
T countedAdd(T *address, T value)
{
	if constexpr (std::is_same_v<T, float>)
		count += address == first || address == first + 1;
	return atomicAdd(address, value);
}

} // namespace

#define atomicAdd countedAdd
#include "kernels/cast.cuh"

unsigned countedSettle(const autoamp::kernels::Parameters &parameters, unsigned blocks)
{
	first = parameters.scratch->lossEnergy;
	count = 0;
	simt::run(dim3(blocks), dim3(autoamp::kernels::blockSize), [&] { autoamp_settle(parameters); });
	return count;
}
