// Products of a library whose C interface calls its Fortran interface, and the way of each inner call.
#include "blas.h"

#include <cstdio>

extern "C" CblasGemm cblas_sgemm;
extern "C" bool wasDirect();

int main()
{
	const float two = 2, three = 3;
	for (int i = 0; i < 4; i++) {
		float six = 0;
		cblas_sgemm(columnMajor, noTrans, noTrans, 1, 1, 1, 1, &two, 1, &three, 1, 0, &six, 1);
		std::printf("%g %s\n", static_cast<double>(six), wasDirect() ? "directly" : "through autoamp");
	}
	return 0;
}
