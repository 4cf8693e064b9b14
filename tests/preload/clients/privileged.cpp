// privileged FOLDER: a product by the libraries of FOLDER, found by their paths, because a privileged program ignores
// LD_LIBRARY_PATH. Prints whether it is privileged, which of autoamp's files are in its memory, and whether autoamp is
// active.
#include "inject/autoamp.h"

#include <cstdio>
#include <cstring>
#include <cublas_v2.h>
#include <dlfcn.h>
#include <string>
#include <sys/auxv.h>

static void *library;

template <typename Fn>
static Fn *lookUp(Fn *, const char *name)
{
	return reinterpret_cast<Fn *>(dlsym(library, name));
}
#define CALL(name, ...) lookUp(name, #name)(__VA_ARGS__)

int main(int, char **argv)
{
	for (const char *file : {"/libcudart.so.13", "/libcublasLt.so.13", "/libcublas.so.13"})
		library = dlopen((argv[1] + std::string(file)).c_str(), RTLD_NOW);
	cublasHandle_t handle;
	const float one = 1, zero = 0, A = 3, B = 5;
	float C = 0;
	const bool isRight = library && CALL(cublasCreate_v2, &handle) == CUBLAS_STATUS_SUCCESS &&
	                     CALL(cublasSgemm_v2, handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, &A, 1, &B, 1, &zero, &C,
	                          1) == CUBLAS_STATUS_SUCCESS &&
	                     C == 15;
	std::printf("privileged %d", getauxval(AT_SECURE) != 0);
	char line[4096];
	bool isFront = false, isCore = false;
	if (std::FILE *const maps = std::fopen("/proc/self/maps", "r"))
		while (std::fgets(line, sizeof line, maps)) {
			isFront |= std::strstr(line, "/libautoamp.so") != nullptr;
			isCore |= std::strstr(line, "/libautoamp-core.so") != nullptr;
		}
	std::printf(" front %d core %d active %d\n", isFront, isCore, autoamp_active());
	return !isRight;
}
