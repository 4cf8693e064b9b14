/* Stands in for a CUDA library: 1 is the libcudart.so.13 that DT_RPATH finds, 2 the emulated one. MARKER: a text
   that other libraries' code would leave in it; such a library also leaves a trace of its execution. */
#ifdef MARKER
#include <stdio.h>

const char marker[] = MARKER;

__attribute__((constructor)) static void start(void)
{
	FILE *file = fopen("ran", "w");
	if (file)
		fclose(file);
}
#endif

#ifdef CALLS /* a library that needs another one */
extern int cudaFake(void);
int spectrum(void)
{
	return 10 * WHICH + cudaFake();
}
#else
int cudaFake(void)
{
	return WHICH;
}
#endif
