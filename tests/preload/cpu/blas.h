// Declarations of a CPU BLAS for the clients, with 32-bit or 64-bit integers (-DWIDE).
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef WIDE
using Int = std::int64_t;
#else
using Int = std::int32_t;
#endif

enum Order { rowMajor = 101, columnMajor = 102 };
enum Trans { noTrans = 111, trans = 112, conjTrans = 113 };

using CblasGemm = void(Order, Trans, Trans, Int, Int, Int, float, const float *, Int, const float *, Int, float,
                       float *, Int);
using Gemm = void(const char *, const char *, const Int *, const Int *, const Int *, const float *, const float *,
                  const Int *, const float *, const Int *, const float *, float *, const Int *, std::size_t,
                  std::size_t);
using CblasBatch = void(Order, const Trans *, const Trans *, const Int *, const Int *, const Int *, const float *,
                        const float **, const Int *, const float **, const Int *, const float *, float **, const Int *,
                        Int, const Int *);
using Batch = void(const char *, const char *, const Int *, const Int *, const Int *, const float *, const float **,
                   const Int *, const float **, const Int *, const float *, float **, const Int *, const Int *,
                   const Int *);
using CblasStrided = void(Order, Trans, Trans, Int, Int, Int, float, const float *, Int, Int, const float *, Int, Int,
                          float, float *, Int, Int, Int);
using Strided = void(const char *, const char *, const Int *, const Int *, const Int *, const float *, const float *,
                     const Int *, const Int *, const float *, const Int *, const Int *, const float *, float *,
                     const Int *, const Int *, const Int *);

// Counted routines, in the C interface.
using CblasGemv = void(Order, Trans, Int, Int, float, const float *, Int, const float *, Int, float, float *, Int);
using CblasSymm = void(Order, int, int, Int, Int, float, const float *, Int, const float *, Int, float, float *, Int);
using CblasSyrk = void(Order, int, Trans, Int, Int, float, const float *, Int, float, float *, Int);
using CblasTriangular = void(Order, int, int, Trans, int, Int, Int, float, const float *, Int, float *, Int);
using CblasDouble = void(Order, Trans, Trans, Int, Int, Int, double, const double *, Int, const double *, Int, double,
                         double *, Int);
using CblasComplex = void(Order, Trans, Trans, Int, Int, Int, const void *, const void *, Int, const void *, Int,
                          const void *, void *, Int);
using CblasHalf = void(Order, Trans, Trans, Int, Int, Int, float, const std::uint16_t *, Int, const std::uint16_t *,
                       Int, float, float *, Int);

// As a Fortran compiler calls them: with the lengths of the texts.
using Gemv = void(const char *, const Int *, const Int *, const float *, const float *, const Int *, const float *,
                  const Int *, const float *, float *, const Int *, std::size_t);
using Symm = void(const char *, const char *, const Int *, const Int *, const float *, const float *, const Int *,
                  const float *, const Int *, const float *, float *, const Int *, std::size_t, std::size_t);
using Syrk = void(const char *, const char *, const Int *, const Int *, const float *, const float *, const Int *,
                  const float *, float *, const Int *, std::size_t, std::size_t);
using Triangular = void(const char *, const char *, const char *, const char *, const Int *, const Int *, const float *,
                        const float *, const Int *, float *, const Int *, std::size_t, std::size_t, std::size_t,
                        std::size_t);
using Other = void(const char *, const char *, const Int *, const Int *, const Int *, const void *, const void *,
                   const Int *, const void *, const Int *, const void *, void *, const Int *, std::size_t, std::size_t);
