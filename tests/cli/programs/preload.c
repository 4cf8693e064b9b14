/* Stands in for libautoamp.so: reports that it was loaded. */
#define _DEFAULT_SOURCE
#include <stdlib.h>

__attribute__((constructor)) static void start(void)
{
	setenv("FAKE_LIBRARY", "loaded", 1);
}
