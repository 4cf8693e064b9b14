/* Stands in for libcudart.so.13, twice: 1 is the one that DT_RPATH finds, 2 the emulated one. */
int cudaFake(void)
{
	return WHICH;
}
