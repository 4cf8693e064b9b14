// The functions of cuBLAS and cuBLASLt that the library calls itself, from the copy that the application called. Any
// thread; found once. Spelled with void * and int so that the vendor's headers stay out of headers; vendor.cpp checks.
#pragma once

#include "src/base/once.h"

#include <cstddef>
#include <cstdint>

namespace autoamp::op {

using Status = int;                  // cublasStatus_t: 0 is success
constexpr int pointerModeDevice = 1; // CUBLAS_POINTER_MODE_DEVICE

#define AUTOAMP_CUBLAS_FUNCTIONS(X)                                                                                    \
	X(cublasGetStream_v2, (void *, void **))                                                                           \
	X(cublasGetPointerMode_v2, (void *, int *))                                                                        \
	X(cublasGetMathMode, (void *, int *))                                                                              \
	X(cublasGetSmCountTarget, (void *, int *))

#define AUTOAMP_CUBLASLT_FUNCTIONS(X)                                                                                  \
	X(cublasLtMatmulDescCreate, (void **, int, int))                                                                   \
	X(cublasLtMatmulDescDestroy, (void *))                                                                             \
	X(cublasLtMatmulDescSetAttribute, (void *, int, const void *, size_t))                                             \
	X(cublasLtMatmulDescGetAttribute, (const void *, int, void *, size_t, size_t *))                                   \
	X(cublasLtMatrixLayoutCreate, (void **, int, uint64_t, uint64_t, int64_t))                                         \
	X(cublasLtMatrixLayoutDestroy, (void *))                                                                           \
	X(cublasLtMatrixLayoutSetAttribute, (void *, int, const void *, size_t))                                           \
	X(cublasLtMatrixLayoutGetAttribute, (const void *, int, void *, size_t, size_t *))                                 \
	X(cublasLtMatmulPreferenceCreate, (void **))                                                                       \
	X(cublasLtMatmulPreferenceDestroy, (void *))                                                                       \
	X(cublasLtMatmulPreferenceSetAttribute, (void *, int, const void *, size_t))                                       \
	X(cublasLtMatmulAlgoGetHeuristic,                                                                                  \
	  (void *, const void *, const void *, const void *, const void *, const void *, void *, int, void *, int *))      \
	X(cublasLtMatmulAlgoCheck,                                                                                         \
	  (void *, const void *, const void *, const void *, const void *, const void *, const void *, void *))            \
	X(cublasLtMatmulAlgoCapGetAttribute, (const void *, int, void *, size_t, size_t *))                                \
	X(cublasLtMatmul,                                                                                                  \
	  (void *, const void *, const void *, const void *, const void *, const void *, const void *, const void *,       \
	   const void *, const void *, void *, const void *, const void *, void *, size_t, void *))

#define AUTOAMP_CUDNN_GRAPH_FUNCTIONS(X)                                                                               \
	X(cudnnBackendCreateDescriptor, (int, void **))                                                                    \
	X(cudnnBackendDestroyDescriptor, (void *))                                                                         \
	X(cudnnBackendFinalize, (void *))                                                                                  \
	X(cudnnBackendSetAttribute, (void *, int, int, int64_t, const void *))                                             \
	X(cudnnBackendGetAttribute, (const void *, int, int, int64_t, int64_t *, void *))                                  \
	X(cudnnBackendExecute, (void *, void *, void *))

struct Cublas {
#define X(name, arguments) Status(*name) arguments;
	AUTOAMP_CUBLAS_FUNCTIONS(X)
#undef X
};

struct CublasLt {
#define X(name, arguments) Status(*name) arguments;
	AUTOAMP_CUBLASLT_FUNCTIONS(X)
#undef X
};

struct CudnnGraph {
#define X(name, arguments) Status(*name) arguments;
	AUTOAMP_CUDNN_GRAPH_FUNCTIONS(X)
#undef X
};

// `known`: a true function of the copy in use. Null when a function is missing there; what is absent is asked for once.
const Cublas *loadCublas(const void *known);
const CublasLt *loadCublasLt(const void *known);
const CudnnGraph *loadCudnnGraph(const void *known);
inline constinit base::Once<const Cublas> theCublas;
inline constinit base::Once<const CublasLt> theCublasLt;
inline constinit base::Once<const CudnnGraph> theCudnnGraph;

inline const Cublas *cublas(const void *known)
{
	return theCublas.get([known] { return loadCublas(known); });
}

inline const CublasLt *cublasLt(const void *known)
{
	return theCublasLt.get([known] { return loadCublasLt(known); });
}

inline const CudnnGraph *cudnnGraph(const void *known)
{
	return theCudnnGraph.get([known] { return loadCudnnGraph(known); });
}

} // namespace autoamp::op
