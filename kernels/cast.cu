// The device side of cast.cuh: what nvcc turns into the fat binary.
#include "kernels/cast.cuh"
