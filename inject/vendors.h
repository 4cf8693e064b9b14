// Beginnings of the names of files whose calls are not application calls. Constant data; any thread. Needs no
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

// Libraries of a CPU BLAS, and libraries for factorizations and eigenvalues that call one. The former include LAPACK.
constexpr const char *blasFiles[] = {"libblas",   "libcblas",  "libopenblas",  "libscipy_openblas",
                                     "libblis",   "libmkl_",   "libatlas",     "libf77blas",
                                     "libsatlas", "libtatlas", "libflexiblas", "libgslcblas"};
constexpr const char *blasSolverFiles[] = {"liblapack",    "libarpack", "libcholmod",   "libumfpack", "libspqr",
                                           "libscalapack", "libelpa",   "libplasma",    "libsuperlu", "libsmumps",
                                           "libdmumps",    "libcmumps", "libzmumps",    "libmumps",   "libtmglib",
                                           "libqrupdate",  "libpastix", "libstrumpack", "libflame"};

} // namespace autoamp::front
