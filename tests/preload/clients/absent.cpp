// absent [FILE]: a program without cuBLAS that tests in every way whether cuBLAS is loaded, and whether a copy is
// visible that it opened for itself and uses. Prints the results. Other names to look up come on stdin.
#include <cstdio>
#include <dlfcn.h>

extern "C" __attribute__((weak)) int cublasSgemm_v2(...);

static void tell(const char *how, const void *found)
{
	const char *error = dlerror();
	std::printf("%s: %s, %s\n", how, found ? "found" : "null", error ? "dlerror" : "no dlerror");
}

int main(int, char **argv)
{
	if (argv[1] && !dlsym(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), "cublasSgemm_v2"))
		return 2;
	tell("default", dlsym(RTLD_DEFAULT, "cublasSgemm_v2"));
	tell("next", dlsym(RTLD_NEXT, "cublasSgemm_v2"));
	tell("handle", dlsym(dlopen(nullptr, RTLD_NOW), "cublasSgemm_v2"));
	tell("version", dlvsym(RTLD_DEFAULT, "cublasLtMatmul", "libcublasLt.so.13"));
	tell("no such name", dlsym(RTLD_DEFAULT, "cublasNoSuchName"));
	char name[256];
	while (std::scanf("%255s", name) == 1) {
		std::printf("%s\n", name);
		tell("default", dlsym(RTLD_DEFAULT, name));
		tell("next", dlsym(RTLD_NEXT, name));
		tell("handle", dlsym(dlopen(nullptr, RTLD_NOW), name));
		tell("version", dlvsym(RTLD_DEFAULT, name, "libcublas.so.13"));
	}
	int (*volatile weak)(...) = cublasSgemm_v2;
	std::printf("weak: %d\n", weak && !argv[1] ? weak(0) : 1); // CUBLAS_STATUS_NOT_INITIALIZED
}
