// Device code of cast.cuh. The build compiles it to one image for each architecture (images.h).
#include "kernels/cast.cuh"
