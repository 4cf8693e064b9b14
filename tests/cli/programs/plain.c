/* A program that needs CUDA's names and does not use them. MARKER: a text that other libraries' code would leave in it;
   KERNELS: the section in which nvcc puts device code; OPENS: a library that it opens and that needs CUDA's names. */
#ifdef OPENS
#include <dlfcn.h>
#endif
#include <stdio.h>
#include <stdlib.h>

#ifdef NEEDS
extern int cudaFake(void);
#endif

#ifdef KERNELS
__attribute__((section(".nv_fatbin"), used)) static const char kernels[64] = "P\xedU\xba";
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
#ifdef OPENS
	void *opened = dlopen(OPENS, RTLD_NOW | RTLD_LOCAL);
	int (*which)(void) = opened ? (int (*)(void))dlsym(opened, "which") : NULL;
	printf("runtime %d\n", which ? which() : -1);
#endif
	return 0;
}
