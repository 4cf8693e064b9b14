/* Stands in for a driver of FAKE_VERSION with FAKE_DEVICES devices. */
#include <stdio.h>
#include <stdlib.h>

static const char *value(const char *name, const char *otherwise)
{
	return getenv(name) ? getenv(name) : otherwise;
}

int cuInit(unsigned flags)
{
	return flags || !getenv("FAKE_DEVICES") ? 100 : 0;
}
int cuDriverGetVersion(int *version)
{
	*version = atoi(value("FAKE_VERSION", "13000"));
	return 0;
}
int cuDeviceGetCount(int *count)
{
	*count = atoi(getenv("FAKE_DEVICES"));
	return 0;
}
int cuDeviceGetName(char *name, int size, int device)
{
	snprintf(name, (size_t)size, "%s", value("FAKE_NAME", device ? "GPU of no name" : "NVIDIA H100"));
	return 0;
}
int cuDeviceGetAttribute(int *number, int attribute, int device)
{
	const int capability = atoi(value("FAKE_CAPABILITY", "90"));
	*number = attribute == 75 ? capability / 10 : capability % 10;
	return device < 0;
}
