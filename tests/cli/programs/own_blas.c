/* A program with its own BLAS, like one that is linked to a static BLAS. LIBRARY: the BLAS alone, under another
   name. USES: a program that is linked to this library. MARKER: a text that it contains. */
#ifdef USES
extern void sgemm_(void);
#else
__attribute__((noinline, used)) void sgemm_(void) {}
#endif

#ifdef MARKER
const char sgemm_text[] = MARKER;
#endif

#ifndef LIBRARY
int main(void)
{
	sgemm_();
	return 0;
}
#endif
