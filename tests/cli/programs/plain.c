/* A program that needs CUDA's names and does nothing with them. MARKER: a text of NVIDIA's static libraries. */
#include <stdio.h>
#include <stdlib.h>

#ifdef NEEDS
extern int cudaFake(void);
#endif

int main(void)
{
	const char *library = getenv("FAKE_LIBRARY");
	printf("library %s\n", library ? library : "absent");
#ifdef MARKER
	puts(MARKER);
#endif
#ifdef NEEDS
	printf("runtime %d\n", cudaFake());
#endif
	return 0;
}
