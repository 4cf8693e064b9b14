// cuBLAS for a client: with LINKED through the linker, with VERSIONED by dlvsym, otherwise by dlopen and dlsym. CUBLAS
// selects the library.
#pragma once

#include "product.h"

#include <cstdlib>
#include <dlfcn.h>

#ifndef CUBLAS
#define CUBLAS "libcublas.so.13"
#endif

#ifdef LINKED
constexpr bool isLinked = true;
inline void openCublas() {}
inline void closeCublas() {}
inline Cublas cublas()
{
	return {cublasCreate_v2, cublasDestroy_v2, cublasSgemm_v2};
}
#else
constexpr bool isLinked = false;
inline void *library;
inline Cublas found;

template <typename Fn>
void lookUp(Fn &function, const char *name)
{
	dlerror();
#ifdef VERSIONED
	function = reinterpret_cast<Fn>(dlvsym(library, name, CUBLAS));
#else
	function = reinterpret_cast<Fn>(dlsym(library, name));
#endif
	if (const char *error = dlerror(); error || !function) { // a successful lookup leaves no error behind
		std::printf("%s: %s\n", name, error ? error : "null");
		std::exit(1);
	}
}

inline void openCublas()
{
	library = dlopen(CUBLAS, RTLD_NOW | RTLD_LOCAL);
	lookUp(found.create, "cublasCreate_v2");
	lookUp(found.destroy, "cublasDestroy_v2");
	lookUp(found.sgemm, "cublasSgemm_v2");
}
inline void closeCublas()
{
	dlclose(library);
}
inline Cublas cublas()
{
	return found;
}
#endif
