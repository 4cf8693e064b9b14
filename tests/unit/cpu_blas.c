// A BLAS library that only reports its threads, with names and values from the build.
int COUNT(void);
int COUNT(void)
{
	return THREADS;
}
#ifdef PARALLEL
int PARALLEL(void);
int PARALLEL(void)
{
	return BUILD;
}
#endif
