// Vendor functions that autoamp itself calls, from the library copy that the application called. Any thread; resolved
// once. The signatures use void * and int so that no header includes a vendor header; vendor.cpp checks them.
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
	X(cublasLtGetVersion, ()) /* returns size_t; the value fits into Status */                                         \
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

// Grouped by the cuDNN sub-library that exports them: a program may have one without the next.
#define AUTOAMP_CUDNN_FUNCTIONS(X)                                                                                     \
	X(cudnnGetStream, (void *, void **))                                                                               \
	X(cudnnSetStream, (void *, void *)) /* only during a self-test */

#define AUTOAMP_CUDNN_OPS_FUNCTIONS(X)                                                                                 \
	X(cudnnGetTensorNdDescriptor, (const void *, int, int *, int *, int *, int *))                                     \
	X(cudnnGetFilterNdDescriptor, (const void *, int, int *, int *, int *, int *))                                     \
	X(cudnnGetActivationDescriptor, (const void *, int *, int *, double *))                                            \
	X(cudnnGetPoolingNdDescriptor, (const void *, int, int *, int *, int *, int *, int *, int *))                      \
	X(cudnnGetReduceTensorDescriptor, (const void *, int *, int *, int *, int *, int *))                               \
	X(cudnnGetOpTensorDescriptor, (const void *, int *, int *, int *))

#define AUTOAMP_CUDNN_CNN_FUNCTIONS(X)                                                                                 \
	X(cudnnGetConvolutionNdDescriptor, (const void *, int, int *, int *, int *, int *, int *, int *))                  \
	X(cudnnGetConvolutionMathType, (const void *, int *))                                                              \
	X(cudnnGetConvolutionGroupCount, (const void *, int *))

// For autoamp's copy of a convolution descriptor, which differs from the application's in its math type.
#define AUTOAMP_CUDNN_CONVOLUTION_FUNCTIONS(X)                                                                         \
	X(cudnnCreateConvolutionDescriptor, (void **))                                                                     \
	X(cudnnDestroyConvolutionDescriptor, (void *))                                                                     \
	X(cudnnSetConvolutionNdDescriptor, (void *, int, const int *, const int *, const int *, int, int))                 \
	X(cudnnSetConvolutionGroupCount, (void *, int))                                                                    \
	X(cudnnSetConvolutionMathType, (void *, int))                                                                      \
	X(cudnnGetConvolutionForwardWorkspaceSize,                                                                         \
	  (void *, const void *, const void *, const void *, const void *, int, size_t *))                                 \
	X(cudnnGetConvolutionBackwardDataWorkspaceSize,                                                                    \
	  (void *, const void *, const void *, const void *, const void *, int, size_t *))                                 \
	X(cudnnGetConvolutionBackwardFilterWorkspaceSize,                                                                  \
	  (void *, const void *, const void *, const void *, const void *, int, size_t *))

#define AUTOAMP_CUDNN_ADV_FUNCTIONS(X)                                                                                 \
	X(cudnnGetRNNDescriptor_v8, (const void *, int *, int *, int *, int *, int *, int *, int *, int *, int32_t *,      \
	                             int32_t *, int32_t *, int32_t *, void **, uint32_t *))                                \
	X(cudnnGetRNNDataDescriptor, (const void *, int *, int *, int *, int *, int *, int, int *, void *))                \
	X(cudnnGetSeqDataDescriptor, (const void *, int *, int *, int, int *, int *, size_t *, size_t, int *, void *))

// To run an RNN in another type.
#define AUTOAMP_CUDNN_RNN_FUNCTIONS(X)                                                                                 \
	X(cudnnCreateTensorDescriptor, (void **))                                                                          \
	X(cudnnDestroyTensorDescriptor, (void *))                                                                          \
	X(cudnnSetTensorNdDescriptor, (void *, int, int, const int *, const int *))                                        \
	X(cudnnCreateRNNDescriptor, (void **))                                                                             \
	X(cudnnDestroyRNNDescriptor, (void *))                                                                             \
	X(cudnnSetRNNDescriptor_v8,                                                                                        \
	  (void *, int, int, int, int, int, int, int, int, int32_t, int32_t, int32_t, int32_t, void *, uint32_t))          \
	X(cudnnRNNGetClip_v8, (void *, int *, int *, double *, double *))                                                  \
	X(cudnnRNNSetClip_v8, (void *, int, int, double, double))                                                          \
	X(cudnnCreateRNNDataDescriptor, (void **))                                                                         \
	X(cudnnDestroyRNNDataDescriptor, (void *))                                                                         \
	X(cudnnSetRNNDataDescriptor, (void *, int, int, int, int, int, const int *, void *))                               \
	X(cudnnGetRNNTempSpaceSizes, (void *, void *, int, void *, size_t *, size_t *))                                    \
	X(cudnnGetRNNWeightSpaceSize, (void *, void *, size_t *))                                                          \
	X(cudnnGetRNNWeightParams,                                                                                         \
	  (void *, void *, int32_t, size_t, const void *, int32_t, void *, void **, void *, void **))                      \
	X(cudnnRNNForward, (void *, void *, int, const void *, void *, const void *, void *, void *, void *, const void *, \
	                    void *, void *, const void *, void *, size_t, const void *, size_t, void *, size_t, void *))   \
	X(cudnnRNNBackwardData_v8, (void *, void *, const void *, void *, const void *, const void *, void *, void *,      \
	                            void *, const void *, const void *, void *, void *, const void *, const void *,        \
	                            void *, size_t, const void *, size_t, void *, size_t, void *))                         \
	X(cudnnRNNBackwardWeights_v8, (void *, void *, int, const void *, void *, const void *, void *, const void *,      \
	                               void *, const void *, size_t, void *, size_t, void *, size_t, void *))

#define AUTOAMP_CUDNN_GRAPH_FUNCTIONS(X)                                                                               \
	X(cudnnBackendCreateDescriptor, (int, void **))                                                                    \
	X(cudnnBackendDestroyDescriptor, (void *))                                                                         \
	X(cudnnBackendFinalize, (void *))                                                                                  \
	X(cudnnBackendSetAttribute, (void *, int, int, int64_t, const void *))                                             \
	X(cudnnBackendGetAttribute, (const void *, int, int, int64_t, int64_t *, void *))                                  \
	X(cudnnBackendExecute, (void *, void *, void *))                                                                   \
	X(cudnnGetVersion, ()) // returns size_t; the value fits into Status

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

#define X(name, arguments) Status(*name) arguments;
struct Cudnn {
	AUTOAMP_CUDNN_FUNCTIONS(X)
};
struct CudnnOps {
	AUTOAMP_CUDNN_OPS_FUNCTIONS(X)
};
struct CudnnCnn {
	AUTOAMP_CUDNN_CNN_FUNCTIONS(X)
};
struct CudnnConvolutions {
	AUTOAMP_CUDNN_CONVOLUTION_FUNCTIONS(X)
};
struct CudnnAdv {
	AUTOAMP_CUDNN_ADV_FUNCTIONS(X)
};
struct CudnnRnn {
	AUTOAMP_CUDNN_RNN_FUNCTIONS(X)
};
struct CudnnGraph {
	AUTOAMP_CUDNN_GRAPH_FUNCTIONS(X)
};
#undef X

// `original`: an original function of the copy in use. Returns null if that copy lacks one of the functions; a failed
// lookup is not repeated.
const Cublas *loadCublas(const void *original);
const CublasLt *loadCublasLt(const void *original);
inline constinit base::Once<const Cublas> theCublas;
inline constinit base::Once<const CublasLt> theCublasLt;

inline const Cublas *cublas(const void *original)
{
	return theCublas.get([original] { return loadCublas(original); });
}

inline const CublasLt *cublasLt(const void *original)
{
	return theCublasLt.get([original] { return loadCublasLt(original); });
}

// The same for one cuDNN sub-library. `original`: a function of that sub-library, or of one that needs it.
template <typename Part>
const Part *loadCudnn(const void *original);
template <typename Part>
inline constinit base::Once<const Part> theCudnn;

template <typename Part>
const Part *cudnn(const void *original)
{
	return theCudnn<Part>.get([original] { return loadCudnn<Part>(original); });
}

} // namespace autoamp::op
