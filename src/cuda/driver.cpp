#include "src/cuda/driver.h"

#include "src/base/broken_loader.h"

// Makes cuda.h declare the older names too.
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>

namespace autoamp::cuda {

namespace {

static_assert(CU_STREAM_CAPTURE_MODE_RELAXED == 2 && CUDA_ERROR_OUT_OF_MEMORY == outOfMemory &&
              CUDA_ERROR_LOSSY_QUERY == lossyQuery && CUDA_ERROR_NOT_READY == notReady);

// Checks that a signature in the list has as many arguments as cuda.h declares, of the same sizes.
template <typename... A, typename... B>
constexpr bool isSame(CUresult (*)(A...), Result (*)(B...))
{
	return sizeof...(A) == sizeof...(B) && ((sizeof(A) == sizeof(B)) && ...);
}
#define X(name, arguments) static_assert(isSame(&::name, static_cast<Result(*) arguments>(nullptr)));
AUTOAMP_DRIVER_FUNCTIONS(X)
#undef X

} // namespace

bool isImageRefused(Result loading)
{
	switch (loading) {
	case CUDA_ERROR_INVALID_IMAGE:
	case CUDA_ERROR_NO_BINARY_FOR_GPU:
	case CUDA_ERROR_INVALID_PTX:
	case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
	case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
	case CUDA_ERROR_JIT_COMPILATION_DISABLED:
		return true;
	default:
		return false;
	}
}

// Racing threads each fill a table, and one compare-and-swap selects one; the others leak a few bytes.
const Driver *loadDriver()
{
	if (base::isLoaderBroken)
		return nullptr;
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!library)
		library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library)
		return nullptr;
	auto *driver = new Driver{};
	bool isComplete = true;
#define X(name, arguments)                                                                                             \
	driver->name = reinterpret_cast<decltype(driver->name)>(dlsym(library, #name));                                    \
	isComplete = isComplete && driver->name;
	AUTOAMP_DRIVER_FUNCTIONS(X)
#undef X
	// The result is kept for the lifetime of the process, so a failed query is repeated once.
	const auto ask = [&] { return driver->cuDriverGetVersion(&driver->version) == 0; };
	bool isThere = isComplete && ask();
	if (isComplete && !isThere) {
		base::leaveFault("cuDriverGetVersion");
		isThere = ask();
	}
	if (!isThere) {
		delete driver;
		return nullptr;
	}
	driver->isEmulated = dlsym(library, "autoamp_emulated_calls") != nullptr;
	driver->cuKernelGetParamInfo =
	    reinterpret_cast<decltype(driver->cuKernelGetParamInfo)>(dlsym(library, "cuKernelGetParamInfo"));
	driver->watchRefused =
	    reinterpret_cast<decltype(driver->watchRefused)>(dlsym(library, "autoamp_emulated_watch_refused"));
	return driver;
}

Result launch(const Driver &driver, CUkern_st *kernel, unsigned blocks, unsigned threads, Stream stream,
              void **arguments, bool isCaptured)
{
	auto *function = reinterpret_cast<CUfunc_st *>(kernel); // which the driver accepts
	if (isCaptured)
		if (const Result result = driver.cuKernelGetFunction(&function, kernel))
			return result;
	return driver.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, nullptr);
}

Result launchWaiting(const Driver &driver, CUfunc_st *kernel, unsigned blocks, unsigned threads, Stream stream,
                     void **arguments)
{
	CUlaunchAttribute attribute = {};
	attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
	attribute.value.programmaticStreamSerializationAllowed = 1;
	CUlaunchConfig how = {};
	how.gridDimX = blocks, how.gridDimY = how.gridDimZ = 1;
	how.blockDimX = threads, how.blockDimY = how.blockDimZ = 1;
	how.hStream = stream;
	how.attrs = &attribute, how.numAttrs = 1;
	return driver.cuLaunchKernelEx(&how, kernel, arguments, nullptr);
}

} // namespace autoamp::cuda
