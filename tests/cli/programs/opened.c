/* A plug-in that needs CUDA's runtime, as the modules of Python packages do. */
extern int cudaFake(void);

int which(void)
{
	return cudaFake();
}
