// All device code. The build compiles it to one image for each architecture (images.h).
#include "kernels/audit.cuh"
#include "kernels/cast.cuh"
#include "kernels/gradient.cuh"
