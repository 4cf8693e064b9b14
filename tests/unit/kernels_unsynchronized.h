// Three kernels without their barriers, as on the emulated device, and two functions of the kernels. They are in a
// separate library: the functions that they share with the real kernels have the same names, and a linker would keep
// one of each. Tests only, any thread.
#pragma once

#include "kernels/cast.h"

#include <array>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void unsynchronizedCastHalf(const autoamp::kernels::Parameters &parameters, unsigned blocks);
EXPORTED void unsynchronizedSum(const autoamp::kernels::Sum &parameters, unsigned blocks);
EXPORTED void unsynchronizedPlace(const autoamp::kernels::Placement &parameters, unsigned blocks);
EXPORTED int64_t quotient(int64_t dividend, int64_t divisor);
EXPORTED std::array<uint32_t, 3> splitIndex(uint32_t index, int64_t inner, int64_t middle);
