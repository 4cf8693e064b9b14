/* A BLAS whose products do nothing, so that the time of a call is that of the interception. `direct_sgemm` is not
 * intercepted. */
#define PARAMETERS                                                                                                     \
	int order, int transa, int transb, int m, int n, int k, float alpha, const float *A, int lda, const float *B,      \
	    int ldb, float beta, float *C, int ldc

#pragma GCC diagnostic ignored "-Wunused-parameter"

void cblas_sgemm(PARAMETERS) {}
void cblas_dgemm(PARAMETERS) {}
void direct_sgemm(PARAMETERS) {}
