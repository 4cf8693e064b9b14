// The common part of cuBLAS, cuBLASLt and cuDNN handles, by which each library recognises all of them. Any thread. A
// destroyed handle keeps its memory: its use returns NOT_INITIALIZED instead of a crash.
#pragma once

#include "tools/emulated/device/device.h"
#include "tools/emulated/entry.h"

#include <cublas_v2.h>

#include <memory>

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
	uint64_t generation = 0; // the device's generation at creation of a cuBLAS handle: a reset invalidates the handle;
	                         // an Lt handle has no context
};

// Makes `context` a live handle of the current device. NOT_INITIALIZED without a usable device.
EMULATED_EXPORT cublasStatus_t open(Context &context, Context::Kind kind);
// The live handle behind a pointer. Null if the pointer is null, or the handle was destroyed or its device was reset.
EMULATED_EXPORT Context *live(const void *handle);
EMULATED_EXPORT void close(Context *context);
// Makes a handle of type `Made`.
template <typename Made, typename Handle>
cublasStatus_t create(Context::Kind kind, Handle *handle)
{
	if (!handle)
		return CUBLAS_STATUS_INVALID_VALUE;
	auto made = std::make_unique<Made>();
	if (cublasStatus_t status = open(*made, kind))
		return status;
	*handle = reinterpret_cast<Handle>(made.release());
	return CUBLAS_STATUS_SUCCESS;
}
// SUCCESS if work of this handle may use the stream: its device is current and the stream belongs to that device.
EMULATED_EXPORT cublasStatus_t ready(const Context &context, cudaStream_t stream);

EMULATED_EXPORT const char *nameOf(cublasStatus_t status);
EMULATED_EXPORT const char *textOf(cublasStatus_t status);
// The version 13.1.0, by libraryPropertyType.
EMULATED_EXPORT cublasStatus_t property(libraryPropertyType type, int *value);

} // namespace emulated::blas

#define FAILED(status) CUBLAS_STATUS_##status
