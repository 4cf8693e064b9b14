// Device code of cast.cuh, which nvcc compiles into the fat binary.
#include "kernels/cast.cuh"
