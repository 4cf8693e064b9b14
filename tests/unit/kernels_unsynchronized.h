// Three kernels without their barriers, as on the emulated device. They are in a separate library: the functions that
// they share with the real kernels have the same names, and a linker would keep one of each. Tests only, any thread.
#pragma once

#include "kernels/cast.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void unsynchronizedCastHalf(const autoamp::kernels::Parameters &parameters, unsigned blocks);
EXPORTED void unsynchronizedSum(const autoamp::kernels::Sum &parameters, unsigned blocks);
EXPORTED void unsynchronizedPlace(const autoamp::kernels::Placement &parameters, unsigned blocks);
