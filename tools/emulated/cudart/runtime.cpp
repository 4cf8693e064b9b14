#include "runtime.h"

#include <cuda.h>
#include <dlfcn.h>

namespace {

struct Variable {
	size_t bytes;
	unsigned long long context = 0; // the context that owns `address`
	void *address = nullptr;
};

// Kernels and variables registered by the program's start-up code. Kernels are looked up by name at first use.
struct Registered {
	std::mutex mutex;
	std::unordered_map<const void *, std::string> kernels;
	std::unordered_map<const void *, Variable> variables;
};

Registered &registered()
{
	static auto *all = new Registered;
	return *all;
}

std::vector<emulated::Configuration> &configurations()
{
	thread_local std::vector<emulated::Configuration> pushed; // configurations between <<<>>> and the launch
	return pushed;
}

} // namespace

emulated::Function *registeredFunction(const void *symbol)
{
	// The symbol may also be a cudaKernel_t or cudaFunction_t.
	if (auto *function = static_cast<const emulated::Function *>(symbol); emulated::isFunction(function))
		return const_cast<emulated::Function *>(function);
	std::string name;
	{
		std::lock_guard guard(registered().mutex);
		const auto found = registered().kernels.find(symbol);
		if (found == registered().kernels.end())
			return nullptr;
		name = found->second;
	}
	return emulated::functionNamed(name.c_str());
}

cudaError_t registeredVariable(const void *symbol, void **address, size_t *bytes)
{
	emulated::Context *context = nullptr;
	if (const cudaError_t error = emulated::requireContext(&context))
		return error;
	std::lock_guard guard(registered().mutex);
	const auto found = registered().variables.find(symbol);
	if (found == registered().variables.end())
		return cudaErrorInvalidSymbol;
	Variable &variable = found->second;
	if (variable.context != context->id) {
		using emulated::Allocation;
		if (const cudaError_t error =
		        emulated::allocate(*context, variable.bytes, Allocation::Device, nullptr, true, 0, &variable.address))
			return error;
		memset(emulated::anyView(variable.address, variable.bytes), 0, variable.bytes);
		variable.context = context->id;
	}
	*address = variable.address;
	*bytes = variable.bytes;
	return cudaSuccess;
}

cudaError_t driverEntry(const char *symbol, void **out, unsigned version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult *result)
{
	using GetProcAddress = CUresult (*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	if (!symbol || !out)
		return cudaErrorInvalidValue;
	static void *const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	static const auto lookUp =
	    driver ? reinterpret_cast<GetProcAddress>(dlsym(driver, "cuGetProcAddress_v2")) : nullptr;
	if (!lookUp)
		return cudaErrorInsufficientDriver;
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	const CUresult error = lookUp(symbol, out, int(version), flags, &status);
	if (result) { // the status is in `result`, so "not found" is not an error
		*result = cudaDriverEntryPointQueryResult(status);
		return error == CUDA_ERROR_NOT_FOUND ? cudaSuccess : cudaError_t(error);
	}
	return error == CUDA_ERROR_NOT_FOUND ? cudaErrorSymbolNotFound : cudaError_t(error);
}

void fillProperties(cudaDeviceProp &out, int device)
{
	const auto number = [device](cudaDeviceAttr attribute) {
		int value = 0;
		emulated::deviceAttribute(&value, attribute, device);
		return value;
	};
	out = {};
	strncpy(out.name, emulated::deviceName, sizeof(out.name) - 1);
	out.uuid.bytes[0] = char(device + 1);
	out.totalGlobalMem = emulated::deviceMemory();
	out.sharedMemPerBlock = size_t(number(cudaDevAttrMaxSharedMemoryPerBlock));
	out.regsPerBlock = number(cudaDevAttrMaxRegistersPerBlock);
	out.warpSize = number(cudaDevAttrWarpSize);
	out.memPitch = size_t(number(cudaDevAttrMaxPitch));
	out.maxThreadsPerBlock = number(cudaDevAttrMaxThreadsPerBlock);
	const cudaDeviceAttr block[] = {cudaDevAttrMaxBlockDimX, cudaDevAttrMaxBlockDimY, cudaDevAttrMaxBlockDimZ};
	const cudaDeviceAttr grid[] = {cudaDevAttrMaxGridDimX, cudaDevAttrMaxGridDimY, cudaDevAttrMaxGridDimZ};
	for (int i = 0; i < 3; ++i) {
		out.maxThreadsDim[i] = number(block[i]);
		out.maxGridSize[i] = number(grid[i]);
	}
	out.totalConstMem = size_t(number(cudaDevAttrTotalConstantMemory));
	out.major = number(cudaDevAttrComputeCapabilityMajor);
	out.minor = number(cudaDevAttrComputeCapabilityMinor);
	out.textureAlignment = size_t(number(cudaDevAttrTextureAlignment));
	out.texturePitchAlignment = size_t(number(cudaDevAttrTexturePitchAlignment));
	out.multiProcessorCount = number(cudaDevAttrMultiProcessorCount);
	out.canMapHostMemory = number(cudaDevAttrCanMapHostMemory);
	out.concurrentKernels = number(cudaDevAttrConcurrentKernels);
	out.pciBusID = number(cudaDevAttrPciBusId);
	out.asyncEngineCount = number(cudaDevAttrAsyncEngineCount);
	out.unifiedAddressing = number(cudaDevAttrUnifiedAddressing);
	out.memoryBusWidth = number(cudaDevAttrGlobalMemoryBusWidth);
	out.l2CacheSize = number(cudaDevAttrL2CacheSize);
	out.maxThreadsPerMultiProcessor = number(cudaDevAttrMaxThreadsPerMultiProcessor);
	out.streamPrioritiesSupported = number(cudaDevAttrStreamPrioritiesSupported);
	out.globalL1CacheSupported = number(cudaDevAttrGlobalL1CacheSupported);
	out.localL1CacheSupported = number(cudaDevAttrLocalL1CacheSupported);
	out.sharedMemPerMultiprocessor = size_t(number(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
	out.regsPerMultiprocessor = number(cudaDevAttrMaxRegistersPerMultiprocessor);
	out.managedMemory = number(cudaDevAttrManagedMemory);
	out.concurrentManagedAccess = number(cudaDevAttrConcurrentManagedAccess);
	out.computePreemptionSupported = number(cudaDevAttrComputePreemptionSupported);
	out.canUseHostPointerForRegisteredMem = number(cudaDevAttrCanUseHostPointerForRegisteredMem);
	out.sharedMemPerBlockOptin = size_t(number(cudaDevAttrMaxSharedMemoryPerBlockOptin));
	out.hostRegisterSupported = number(cudaDevAttrHostRegisterSupported);
	out.maxBlocksPerMultiProcessor = number(cudaDevAttrMaxBlocksPerMultiprocessor);
	out.reservedSharedMemPerBlock = size_t(number(cudaDevAttrReservedSharedMemoryPerBlock));
	out.memoryPoolsSupported = number(cudaDevAttrMemoryPoolsSupported);
}

// ---- functions without the usual wrapper: they have no error to return, or another one

extern "C" EMULATED_EXPORT cudaError_t cudaGetLastError()
{
	emulated::Thread &me = emulated::thread();
	const cudaError_t last = std::exchange(me.last, cudaSuccess), sticky = emulated::stickyError();
	return sticky ? sticky : last;
}

extern "C" EMULATED_EXPORT cudaError_t cudaPeekAtLastError()
{
	const cudaError_t sticky = emulated::stickyError();
	return sticky ? sticky : emulated::thread().last;
}

extern "C" EMULATED_EXPORT const char *cudaGetErrorName(cudaError_t error)
{
	const char *name = emulated::errorName(errorNames, error);
	return name ? name : "unrecognized error code";
}

extern "C" EMULATED_EXPORT const char *cudaGetErrorString(cudaError_t error)
{
	const char *text = emulated::errorText(errorNames, error);
	return text ? text : "unrecognized error code";
}

extern "C" EMULATED_EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                                       cudaChannelFormatKind kind)
{
	return {x, y, z, w, kind};
}

// ---- functions that compiled programs call before main() and around a launch (crt/host_runtime.h)

extern "C" EMULATED_EXPORT void **__cudaRegisterFatBinary(void *image)
{
	return new void *(image);
}

extern "C" EMULATED_EXPORT void __cudaRegisterFatBinaryEnd(void **) {}

extern "C" EMULATED_EXPORT void __cudaUnregisterFatBinary(void **handle)
{
	delete handle;
}

extern "C" EMULATED_EXPORT char __cudaInitModule(void **)
{
	return 1;
}

extern "C" EMULATED_EXPORT void __cudaRegisterFunction(void **, const char *symbol, char *, const char *name, int,
                                                       uint3 *, uint3 *, dim3 *, dim3 *, int *)
{
	std::lock_guard guard(registered().mutex);
	registered().kernels[symbol] = name;
}

extern "C" EMULATED_EXPORT void __cudaRegisterVar(void **, char *symbol, char *, const char *, int, size_t bytes, int,
                                                  int)
{
	std::lock_guard guard(registered().mutex);
	registered().variables[symbol] = {bytes};
}

extern "C" EMULATED_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                                CUstream_st *stream)
{
	configurations().push_back({grid, block, shared, stream});
	return 0;
}

extern "C" EMULATED_EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
	if (configurations().empty())
		return emulated::thread().last = cudaErrorMissingConfiguration;
	const emulated::Configuration how = configurations().back();
	configurations().pop_back();
	*grid = how.grid;
	*block = how.block;
	*shared = how.shared;
	*static_cast<cudaStream_t *>(stream) = how.stream;
	return cudaSuccess;
}
