/* Stands in for a driver with FAKE_DEVICES devices. */
#include <stdlib.h>

int cuInit(unsigned flags)
{
	return flags || !getenv("FAKE_DEVICES");
}
int cuDeviceGetCount(int *count)
{
	*count = atoi(getenv("FAKE_DEVICES"));
	return 0;
}
