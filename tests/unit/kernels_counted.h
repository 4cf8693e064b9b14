// The settle kernel as on the emulated device, in a separate library: its atomic additions to numbers of the scratch
// memory are counted. Tests only, any thread.
#pragma once

#include "kernels/cast.h"

// Runs the kernel; returns the number of additions to `lossEnergy`.
__attribute__((visibility("default"))) unsigned countedSettle(const autoamp::kernels::Parameters &parameters,
                                                              unsigned blocks);
