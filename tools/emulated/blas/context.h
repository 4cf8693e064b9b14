// What the handles of cuBLAS, cuBLASLt and cuDNN have in common, so that each library recognises all. Any thread.
// A handle that is destroyed keeps its memory: using it afterwards is NOT_INITIALIZED, not a crash.
#pragma once

#include "tools/emulated/device/device.h"

#include <cublas_v2.h>

namespace emulated::blas {

struct Context {
	enum class Kind : uint64_t {
		Dead = 0x64656164,
		Cublas = 0x63626c73,
		CublasLt = 0x63624c74,
		CublasXt = 0x63625874,
		Cudnn = 0x63646e6e
	};
	Kind kind = Kind::Dead;
	int device = 0;
	uint64_t generation =
	    0; // of the device when a cuBLAS handle was made: a reset kills it, an Lt handle has no context
};

// Makes `context` a live handle of the current device. NOT_INITIALIZED when there is no usable device.
EMULATED_EXPORT cublasStatus_t open(Context &context, Context::Kind kind);
// The live handle behind a pointer, or null: what is null, was destroyed, or belongs to a device since reset.
EMULATED_EXPORT Context *live(const void *handle);
EMULATED_EXPORT void close(Context *context);
// SUCCESS when work of this handle may go to the stream: its device is current and the stream belongs to it.
EMULATED_EXPORT cublasStatus_t ready(const Context &context, cudaStream_t stream);

EMULATED_EXPORT const char *nameOf(cublasStatus_t status);
EMULATED_EXPORT const char *textOf(cublasStatus_t status);
// 13.1.0 as libraryPropertyType asks for it.
EMULATED_EXPORT cublasStatus_t property(libraryPropertyType type, int *value);

} // namespace emulated::blas

// First statement of every exported function.
#define FAIL_AS(status)                                                                                                \
	if (emulated::mustFail(__func__))                                                                                  \
	return CUBLAS_STATUS_##status
