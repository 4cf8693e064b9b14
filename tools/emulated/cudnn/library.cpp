// Handles and their settings, versions, status texts, callbacks; enqueues work on a handle's stream.
#include "tools/emulated/cudnn/handle.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace emulated::cudnn {

namespace {

thread_local char lastError[256]; // not an object, because destructors at exit may still call the library

struct Callback {
	std::mutex mutex;
	unsigned mask = 0;
	void *data = nullptr;
	cudnnCallback_t function = nullptr;
};
Callback callback;

struct StatusName {
	cudnnStatus_t status;
	const char *name;
};
#define STATUS(name) {CUDNN_STATUS_##name, "CUDNN_STATUS_" #name},
constexpr StatusName statusNames[] = {
    STATUS(SUCCESS) STATUS(NOT_INITIALIZED) STATUS(SUBLIBRARY_VERSION_MISMATCH) STATUS(SERIALIZATION_VERSION_MISMATCH)
        STATUS(DEPRECATED) STATUS(LICENSE_ERROR) STATUS(RUNTIME_IN_PROGRESS) STATUS(RUNTIME_FP_OVERFLOW) STATUS(
            SUBLIBRARY_LOADING_FAILED) STATUS(BAD_PARAM) STATUS(BAD_PARAM_NULL_POINTER)
            STATUS(BAD_PARAM_MISALIGNED_POINTER) STATUS(BAD_PARAM_NOT_FINALIZED) STATUS(BAD_PARAM_OUT_OF_BOUND) STATUS(
                BAD_PARAM_SIZE_INSUFFICIENT) STATUS(BAD_PARAM_STREAM_MISMATCH) STATUS(BAD_PARAM_SHAPE_MISMATCH)
                STATUS(BAD_PARAM_DUPLICATED_ENTRIES) STATUS(BAD_PARAM_ATTRIBUTE_TYPE) STATUS(
                    BAD_PARAM_CUDA_GRAPH_MISMATCH) STATUS(BAD_PARAM_DESCRIPTOR_TYPE) STATUS(NOT_SUPPORTED)
                    STATUS(NOT_SUPPORTED_GRAPH_PATTERN) STATUS(NOT_SUPPORTED_SHAPE) STATUS(NOT_SUPPORTED_DATA_TYPE)
                        STATUS(NOT_SUPPORTED_LAYOUT) STATUS(NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER)
                            STATUS(NOT_SUPPORTED_INCOMPATIBLE_CUDART) STATUS(NOT_SUPPORTED_ARCH_MISMATCH) STATUS(
                                NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING) STATUS(NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE)
                                STATUS(NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT) STATUS(NOT_SUPPORTED_PADDING)
                                    STATUS(NOT_SUPPORTED_BAD_LAUNCH_PARAM) STATUS(NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API)
                                        STATUS(NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE) STATUS(INTERNAL_ERROR) STATUS(
                                            INTERNAL_ERROR_COMPILATION_FAILED) STATUS(INTERNAL_ERROR_UNEXPECTED_VALUE)
                                            STATUS(INTERNAL_ERROR_HOST_ALLOCATION_FAILED) STATUS(
                                                INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
                                                STATUS(INTERNAL_ERROR_BAD_LAUNCH_PARAM) STATUS(
                                                    INTERNAL_ERROR_TEXTURE_CREATION_FAILED) STATUS(EXECUTION_FAILED)
                                                    STATUS(EXECUTION_FAILED_CUDA_DRIVER) STATUS(EXECUTION_FAILED_CUBLAS)
                                                        STATUS(EXECUTION_FAILED_CUDART) STATUS(EXECUTION_FAILED_CURAND)
                                                            STATUS(INVALID_VALUE)};
#undef STATUS

} // namespace

Handle *handleOf(cudnnHandle_t handle)
{
	const auto address = reinterpret_cast<uintptr_t>(handle);
	auto *mine = reinterpret_cast<Handle *>(handle);
	const bool isHandle = address >= 4096 && address % alignof(Handle) == 0 && mine->kind == Handle::Kind::Cudnn;
	return isHandle && mine->generation == deviceGeneration(mine->device) ? mine : nullptr;
}

cudnnStatus_t refuse(cudnnStatus_t status, const char *why)
{
	std::snprintf(lastError, sizeof lastError, "%s", why);
	return status;
}

void *Memory::at(const void *address, size_t bytes, size_t alignment)
{
	void *alias = nullptr;
	if (error_)
		return nullptr;
	if (reinterpret_cast<uintptr_t>(address) % alignment != 0)
		error_ = cudaErrorMisalignedAddress;
	else if (!(alias = address ? view(address, bytes) : nullptr))
		error_ = cudaErrorIllegalAddress;
	return alias;
}

void *Memory::at(const Tensor &tensor, const void *address)
{
	const size_t size = dnn::sizeOf(tensor.type), before = tensor.before() * size;
	auto *least = at(address ? static_cast<const std::byte *>(address) - before : nullptr,
	                 before + (tensor.after() + 1) * size, size);
	return least ? static_cast<std::byte *>(least) + before : nullptr;
}

cudnnStatus_t run(const Handle &handle, const char *name, std::function<void(Memory &)> work)
{
	if (blas::ready(handle, handle.stream) != CUBLAS_STATUS_SUCCESS)
		return refuse(CUDNN_STATUS_EXECUTION_FAILED, "the handle's device or stream is not usable");
	auto body = [work = std::move(work)] {
		Memory memory;
		work(memory);
		return memory.error();
	};
	return submit(handle.stream, name, body) == cudaSuccess
	           ? CUDNN_STATUS_SUCCESS
	           : refuse(CUDNN_STATUS_EXECUTION_FAILED, "the stream takes no work");
}

} // namespace emulated::cudnn

using namespace emulated::cudnn;

ENTRY(cudnnCreate, NOT_INITIALIZED, handle)
{
	REFUSE_IF(!handle, BAD_PARAM);
	auto *made = new Handle;
	if (emulated::blas::open(*made, Handle::Kind::Cudnn)) {
		delete made;
		return refuse(CUDNN_STATUS_NOT_INITIALIZED, "no device");
	}
	*handle = reinterpret_cast<cudnnHandle_t>(made);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnDestroy, BAD_PARAM, handle)
{
	if (!handle)
		return CUDNN_STATUS_SUCCESS;
	Handle *mine = handleOf(handle);
	REFUSE_IF(!mine, BAD_PARAM);
	emulated::synchronize(nullptr);
	emulated::blas::close(mine);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnSetStream, BAD_PARAM, handle, stream)
{
	Handle *mine = handleOf(handle);
	REFUSE_IF(!mine, BAD_PARAM);
	REFUSE_IF(stream && emulated::deviceOf(stream) != mine->device, BAD_PARAM_STREAM_MISMATCH);
	mine->stream = stream;
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetStream, BAD_PARAM, handle, stream)
{
	Handle *mine = handleOf(handle);
	REFUSE_IF(!mine || !stream, BAD_PARAM);
	*stream = mine->stream;
	return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion()
{
	static const char *const wanted = getenv("AUTOAMP_EMU_CUDNN"); // for programs that expect another version
	return wanted && *wanted ? strtoul(wanted, nullptr, 10) : CUDNN_VERSION;
}

size_t cudnnGetMaxDeviceVersion()
{
	return CUDNN_MAX_DEVICE_VERSION;
}

size_t cudnnGetCudartVersion()
{
	return 13010;
}

ENTRY(cudnnGetProperty, BAD_PARAM, type, value)
{
	const auto whole = static_cast<int>(::cudnnGetVersion());
	const int version[] = {whole / 10000, whole / 100 % 100, whole % 100};
	REFUSE_IF(!value || type < MAJOR_VERSION || type > PATCH_LEVEL, BAD_PARAM);
	*value = version[type];
	return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
	for (const StatusName &row : statusNames)
		if (row.status == status)
			return row.name;
	return "CUDNN_UNKNOWN_STATUS";
}

void cudnnGetLastErrorString(char *message, size_t bytes)
{
	if (message && bytes)
		std::snprintf(message, bytes, "%s", lastError);
	lastError[0] = 0;
}

ENTRY(cudnnQueryRuntimeError, BAD_PARAM, handle, status, unused, unused2)
{
	REFUSE_IF(!handleOf(handle) || !status, BAD_PARAM);
	*status = CUDNN_STATUS_SUCCESS;
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnSetCallback, BAD_PARAM, mask, data, function)
{
	std::lock_guard lock(callback.mutex);
	callback.mask = mask;
	callback.data = data;
	callback.function = function;
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnGetCallback, BAD_PARAM, mask, data, function)
{
	REFUSE_IF(!mask || !data || !function, BAD_PARAM);
	std::lock_guard lock(callback.mutex);
	*mask = callback.mask;
	*data = callback.data;
	*function = callback.function;
	return CUDNN_STATUS_SUCCESS;
}

#define CHECK(part)                                                                                                    \
	ENTRY(cudnn##part##VersionCheck, SUBLIBRARY_VERSION_MISMATCH)                                                      \
	{                                                                                                                  \
		return CUDNN_STATUS_SUCCESS;                                                                                   \
	}
CHECK(Graph)
CHECK(Ops)
CHECK(Cnn)
CHECK(Adv)
