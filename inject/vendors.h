// Beginnings of the names of files whose cuBLAS calls are not application calls. Constant data; any thread. Needs no
// C++ runtime: front and core read it.
#pragma once

namespace autoamp::front {

// NVIDIA libraries. The dot excludes libcublasMp, which is a solver library here. A wheel repair tool inserts a dash
// and a hash.
constexpr const char *vendorFiles[] = {"libcublas.so", "libcublas-",  "libcublasLt.so", "libcublasLt-", "libcudnn",
                                       "libcusolver",  "libcusparse", "libcufft",       "libnvinfer",   "libnvblas"};

// Libraries for factorizations, which need fp32 although their calls look like application calls. If an application
// library may continue the name with a letter (libmagmadnn, libcalibrate), the entry includes the character after the
// name. A wheel repair tool inserts a dash and a hash.
constexpr const char *solverFiles[] = {"libmagma.",   "libmagma-", "libmagma_",   "libtorch_cuda_linalg",
                                       "libslate.so", "libslate-", "libcublasMp", "libcal.so"};

} // namespace autoamp::front
