// Files whose own cuBLAS calls are not the application's: beginnings of their names. Constant data: any thread.
// Needs no C++ runtime: front and core read it.
#pragma once

namespace autoamp::front {

// NVIDIA's. The dot keeps libcublasMp out, which is a solver's library here.
constexpr const char *vendorFiles[] = {"libcublas.so", "libcublasLt.so", "libcudnn",   "libcusolver",
                                       "libcusparse",  "libcufft",       "libnvinfer", "libnvblas"};

// Factorisations that need fp32 although their calls look like anybody's.
constexpr const char *solverFiles[] = {"libmagma", "libtorch_cuda_linalg", "libslate", "libcublasMp", "libcal"};

} // namespace autoamp::front
