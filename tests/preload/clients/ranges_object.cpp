// An object with a copy of NVTX of its own, as each part of a large program has one.
#include "ranges.h"

extern "C" __attribute__((visibility("default"))) const Ranges objectRanges;
const Ranges objectRanges = ownRanges;
