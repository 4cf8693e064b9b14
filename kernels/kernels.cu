// All device code. The build compiles it to one image for each architecture (images.h).
#include "kernels/cast.cuh"
#include "kernels/gradient.cuh"
