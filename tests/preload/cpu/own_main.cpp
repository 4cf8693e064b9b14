// Linked to a library with its own function sgemm. The program itself has its own function strmm. -DLINKED: linked to a
// BLAS as well.
#include "check.h"

#include <cstdio>

extern "C" {

int sgemm(int a, int b);
char run();
__attribute__((visibility("default"))) int strmm()
{
	return 42;
}
#ifdef LINKED
void cblas_sgemm();
void sgemm_();
#endif

} // extern "C"

int main()
{
	std::printf("%d %d %c", strmm(), sgemm(5, 6), run());
#ifdef LINKED
	std::printf(" %c", check(reinterpret_cast<void *>(cblas_sgemm), reinterpret_cast<void *>(sgemm_)));
#endif
	std::printf("\n");
	return 0;
}
