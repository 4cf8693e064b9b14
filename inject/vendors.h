// Files whose own cuBLAS calls are not the application's: beginnings of their names. Constant data: any thread.
// Needs no C++ runtime: front and core read it.
#pragma once

namespace autoamp::front {

// NVIDIA's. The dot keeps libcublasMp out, which is a solver's library here; a wheel's repair puts a hash behind a
// dash.
constexpr const char *vendorFiles[] = {"libcublas.so", "libcublas-",  "libcublasLt.so", "libcublasLt-", "libcudnn",
                                       "libcusolver",  "libcusparse", "libcufft",       "libnvinfer",   "libnvblas"};

// Factorisations that need fp32 although their calls look like anybody's. Where an application's library may go on with
// a letter (libmagmadnn, libcalibrate), the name's end is said; a wheel's repair puts a hash behind a dash.
constexpr const char *solverFiles[] = {"libmagma.",   "libmagma-", "libmagma_",   "libtorch_cuda_linalg",
                                       "libslate.so", "libslate-", "libcublasMp", "libcal.so"};

} // namespace autoamp::front
