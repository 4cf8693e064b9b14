#include "tools/emulated/blas/context.h"

#include <mutex>
#include <vector>

namespace emulated::blas {

namespace {

struct StatusText {
	cublasStatus_t status;
	const char *name;
	const char *text;
};
#define STATUS(name, text) {name, #name, text},
constexpr StatusText statuses[] = {
    STATUS(CUBLAS_STATUS_SUCCESS, "success") STATUS(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized")
        STATUS(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed")
            STATUS(CUBLAS_STATUS_INVALID_VALUE, "an unsupported value or parameter was passed to the function") STATUS(
                CUBLAS_STATUS_ARCH_MISMATCH, "the function requires an architectural feature absent from the device")
                STATUS(CUBLAS_STATUS_MAPPING_ERROR, "an access to GPU memory space failed")
                    STATUS(CUBLAS_STATUS_EXECUTION_FAILED, "the function failed to launch on the GPU")
                        STATUS(CUBLAS_STATUS_INTERNAL_ERROR, "an internal operation failed")
                            STATUS(CUBLAS_STATUS_NOT_SUPPORTED, "the requested functionality is not supported")
                                STATUS(CUBLAS_STATUS_LICENSE_ERROR, "the license check failed")};
#undef STATUS

const StatusText &textFor(cublasStatus_t status)
{
	static constexpr StatusText unknown{CUBLAS_STATUS_SUCCESS, "unrecognized status", "unrecognized status"};
	for (const StatusText &row : statuses)
		if (row.status == status)
			return row;
	return unknown;
}

} // namespace

cublasStatus_t open(Context &context, Context::Kind kind)
{
	if (!isUsable() || stickyError() != cudaSuccess)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	context.kind = kind;
	context.device = currentDevice();
	context.generation = deviceGeneration(context.device);
	return CUBLAS_STATUS_SUCCESS;
}

Context *live(const void *handle)
{
	auto *context = static_cast<Context *>(const_cast<void *>(handle));
	if (reinterpret_cast<uintptr_t>(handle) < 4096 || reinterpret_cast<uintptr_t>(handle) % alignof(Context) != 0)
		return nullptr;
	if (context->kind == Context::Kind::CublasLt)
		return context;
	bool alive = context->kind == Context::Kind::Cublas && context->generation == deviceGeneration(context->device);
	return alive ? context : nullptr;
}

void close(Context *context)
{
	static auto *mutex = new std::mutex;
	static auto *graveyard = new std::vector<Context *>; // keeps the handles reachable for leak checkers
	context->kind = Context::Kind::Dead;
	std::lock_guard lock(*mutex);
	graveyard->push_back(context);
}

cublasStatus_t ready(const Context &context, cudaStream_t stream)
{
	int device = currentDevice();
	bool ours = (context.kind == Context::Kind::CublasLt || context.device == device) && deviceOf(stream) == device;
	return ours && stickyError() == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

const char *nameOf(cublasStatus_t status)
{
	return textFor(status).name;
}

const char *textOf(cublasStatus_t status)
{
	return textFor(status).text;
}

cublasStatus_t property(libraryPropertyType type, int *value)
{
	if (!value || type < MAJOR_VERSION || type > PATCH_LEVEL)
		return CUBLAS_STATUS_INVALID_VALUE;
	*value = type == MAJOR_VERSION ? CUBLAS_VER_MAJOR : type == MINOR_VERSION ? CUBLAS_VER_MINOR : CUBLAS_VER_PATCH;
	return CUBLAS_STATUS_SUCCESS;
}

} // namespace emulated::blas
