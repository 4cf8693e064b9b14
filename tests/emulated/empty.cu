// A kernel that does nothing, in fat binaries for several GPUs.
extern "C" __global__ void empty() {}
