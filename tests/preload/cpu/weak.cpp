// Weak references: to a BLAS that the program uses if it is there. With an argument, it calls the function in any case.
#include "blas.h"

#include <cstdio>

extern "C" __attribute__((weak)) CblasGemm cblas_sgemm;

#ifdef LINKED // otherwise the linker leaves the library out
extern "C" Gemm sgemm_;
extern Gemm *const needed = sgemm_;
#endif

int main(int argc, char **)
{
	const float two = 2, three = 3;
	float six = 0;
	std::printf("%s\n", cblas_sgemm ? "there" : "null");
	std::fflush(stdout);
	if (cblas_sgemm && argc > 1)
		cblas_sgemm(columnMajor, noTrans, noTrans, 1, 1, 1, 1, &two, 1, &three, 1, 0, &six, 1);
	std::printf("%g\n", static_cast<double>(six));
	return 0;
}
