// The functions of cuda.cpp that must return values.
#include <cstddef>

struct CUctx_st {
} context;
struct CUmemPoolHandle_st {
} pool;

extern "C" {
int cuDriverGetVersion(int *version)
{
	*version = 13000;
	return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int)
{
	constexpr int minor = 76; // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
	*value = attribute == minor ? 0 : 9;
	return 0;
}
int cuCtxGetCurrent(CUctx_st **current)
{
	*current = &context;
	return 0;
}
int cuStreamGetCtx(void *, CUctx_st **current)
{
	*current = &context;
	return 0;
}
int cuStreamGetId(void *, unsigned long long *id)
{
	*id = 1;
	return 0;
}
int cuCtxGetDevice(int *device)
{
	*device = 0;
	return 0;
}
int cuCtxGetId(CUctx_st *, unsigned long long *id)
{
	*id = 1;
	return 0;
}
int cuMemGetInfo_v2(size_t *free, size_t *total)
{
	*free = *total = size_t{64} << 30;
	return 0;
}
int cuMemPoolCreate(CUmemPoolHandle_st **made, const void *)
{
	*made = &pool;
	return 0;
}
int cuMemAllocFromPoolAsync(unsigned long long *address, size_t, CUmemPoolHandle_st *, void *)
{
	*address = 1 << 20;
	return 0;
}
int cuMemAlloc_v2(unsigned long long *address, size_t)
{
	*address = 1 << 20;
	return 0;
}
int cuStreamIsCapturing(void *, int *status)
{
	*status = 0;
	return 0;
}
}
