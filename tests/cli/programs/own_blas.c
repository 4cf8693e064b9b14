/* A program with a BLAS of its own, as one that is linked to a static BLAS. */
__attribute__((noinline, used)) void sgemm_(void) {}

int main(void)
{
	sgemm_();
	return 0;
}
