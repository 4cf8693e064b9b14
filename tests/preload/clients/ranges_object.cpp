// An object with its own copy of NVTX, like each part of a large program.
#include "ranges.h"

extern "C" __attribute__((visibility("default"))) const Ranges objectRanges;
const Ranges objectRanges = ownRanges;
