/* Calls a CPU BLAS: `multiplies FUNCTION TIMES` with FUNCTION sgemm, large, dgemm, sdot or none. The results of
 * `large` are finite in fp32 and infinite in bfloat16. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sgemm_(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
            const int *, const float *, const int *, const float *, float *, const int *);
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
float sdot_(const int *, const float *, const int *, const float *, const int *);

enum { size = 256 };
static float a[size * size], b[size * size], c[size * size];
static double A[size * size], B[size * size], C[size * size];

int main(int count, char **words)
{
	const char *const function = count > 1 ? words[1] : "sgemm";
	const int times = count > 2 ? atoi(words[2]) : 1, n = size, one = 1;
	const float alpha = 1, beta = 0;
	const double wideAlpha = 1, wideBeta = 0;
	for (int i = 0; i < size * size; i++)
		a[i] = b[i] = A[i] = B[i] = 1;
	const int isLarge = strcmp(function, "large") == 0;
	for (int i = 0; isLarge && i < size * size; i++)
		a[i] = b[i] = i % (size + 1) ? 0 : 1.844e19f; /* bfloat16: 2^64 */
	for (int i = 0; i < times; i++)
		if (isLarge || strcmp(function, "sgemm") == 0)
			sgemm_("N", "N", &n, &n, &n, &alpha, a, &n, b, &n, &beta, c, &n);
		else if (strcmp(function, "dgemm") == 0)
			dgemm_("N", "N", &n, &n, &n, &wideAlpha, A, &n, B, &n, &wideBeta, C, &n);
		else if (strcmp(function, "sdot") == 0)
			c[0] = sdot_(&n, a, &one, b, &one);
	printf("%g %g\n", c[0], C[0]);
	return 0;
}
