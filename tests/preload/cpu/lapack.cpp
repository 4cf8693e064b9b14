// A library for factorizations that calls sgemm_, as LAPACK does.
#include "blas.h"
#include "check.h"

extern "C" Gemm sgemm_;
extern "C" CblasGemm cblas_sgemm;

extern "C" char run()
{
	return check(reinterpret_cast<void *>(cblas_sgemm), reinterpret_cast<void *>(sgemm_));
}
