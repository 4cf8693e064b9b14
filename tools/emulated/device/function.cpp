#include "core.h"
#include "kernel.h"
#include "refusals.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <sstream>

namespace emulated {
namespace {

struct Functions {
	std::mutex mutex;
	std::unordered_map<std::string, const Kernel *> kernels;
	std::unordered_map<std::string, Function *> byName;
	std::map<std::pair<const Function *, const Context *>, Function *> ofContexts;
	std::unordered_set<const Function *> all;
	std::unordered_set<void *> libraries;
};

Functions &functions()
{
	static auto *all = new Functions;
	return *all;
}

std::atomic<RefusalWatcher *> refusalWatcher{nullptr};

// Reports the launches since the last report. The first report of a function is sent even without launches. Call it
// without a lock.
void refuse(Function &function)
{
	const bool isNew = !function.isRefused.exchange(true);
	RefusalWatcher *const watcher = refusalWatcher;
	if (!watcher)
		return;
	const unsigned long launches = function.refused.exchange(0);
	if (isNew || launches > 0)
		watcher(function.name.c_str(), launches);
}

// Loads plugins/*.so next to this library, then the files in AUTOAMP_EMU_PLUGINS.
void loadPlugins()
{
	Dl_info self;
	if (!dladdr(reinterpret_cast<void *>(&loadPlugins), &self))
		return;
	const auto folder = std::filesystem::absolute(self.dli_fname).parent_path() / "plugins";
	std::vector<std::filesystem::path> files;
	std::error_code none;
	for (const auto &file : std::filesystem::directory_iterator(folder, none))
		if (file.path().extension() == ".so")
			files.push_back(file.path());
	std::sort(files.begin(), files.end());
	const char *named = getenv("AUTOAMP_EMU_PLUGINS");
	std::istringstream list(named ? named : "");
	for (std::string file; std::getline(list, file, ':');)
		files.push_back(file);
	for (const auto &file : files)
		if (!dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
			say("%s", dlerror());
}

} // namespace

void registerKernels(const Kernel *kernels, size_t count)
{
	Functions &all = functions();
	std::lock_guard guard(all.mutex);
	for (const Kernel *kernel = kernels; kernel < kernels + count; ++kernel) {
		all.kernels[kernel->name] = kernel;
		if (const auto found = all.byName.find(kernel->name); found != all.byName.end())
			found->second->kernel = kernel;
	}
}

Function *functionNamed(const char *name)
{
	static std::once_flag once;
	std::call_once(once, loadPlugins);
	Functions &all = functions();
	std::lock_guard guard(all.mutex);
	Function *&function = all.byName[name];
	if (!function) {
		function = new Function;
		function->name = name;
		if (const auto found = all.kernels.find(name); found != all.kernels.end())
			function->kernel = found->second;
		all.all.insert(function);
	}
	return function;
}

cudaError_t functionOfContext(Function **out, Function *kernel)
{
	Context *current = nullptr;
	if (const cudaError_t error = requireContext(&current))
		return error;
	if (!isFunction(kernel))
		return cudaErrorInvalidResourceHandle;
	Functions &all = functions();
	std::lock_guard guard(all.mutex);
	Function *&function = all.ofContexts[{kernel, current}];
	if (!function) {
		function = new Function;
		function->name = kernel->name;
		function->context = current;
		all.all.insert(function);
	}
	function->kernel = kernel->kernel;
	function->dynamicShared = kernel->dynamicShared.load();
	*out = function;
	return cudaSuccess;
}

bool isFunction(const Function *function)
{
	Functions &all = functions();
	std::lock_guard guard(all.mutex);
	return all.all.count(function);
}

cudaError_t launchKernel(Function *function, const Configuration &how, void **arguments)
{
	Context *current = nullptr;
	if (const cudaError_t error = requireContext(&current))
		return error;
	if (!isFunction(function))
		return cudaErrorInvalidResourceHandle;
	const auto threads = uint64_t(how.block.x) * how.block.y * how.block.z;
	if (threads == 0 || threads > 1024 || how.block.z > 64 || how.grid.x == 0 || how.grid.x > 0x7fffffff ||
	    how.grid.y - 1 >= 65535 || how.grid.z - 1 >= 65535 || how.shared > size_t(function->dynamicShared))
		return cudaErrorInvalidConfiguration;
	StreamFacts facts;
	if (function->context && (streamFacts(how.stream, &facts) || facts.context != function->context))
		return cudaErrorInvalidResourceHandle;
	const Kernel *kernel = function->kernel;
	if (!kernel) {
		function->refused++;
		countRefusal(function->name.c_str(), 1);
		refuse(*function);
		missing(function->name.c_str());
		return cudaErrorNotSupported;
	}
	if (kernel->count && !arguments)
		return cudaErrorInvalidValue;
	std::vector<size_t> places;
	std::vector<char> values;
	for (unsigned i = 0; i < kernel->count; ++i) {
		places.push_back((values.size() + 15) / 16 * 16);
		values.resize(places.back() + kernel->sizes[i]);
		memcpy(values.data() + places.back(), arguments[i], kernel->sizes[i]);
	}
	const Launch launch{how.grid, how.block, how.shared};
	return submitOp(how.stream, function->name.c_str(), cudaGraphNodeTypeKernel, [=] {
		auto own = values; // a copy, because a kernel may change its parameters and a graph runs it again
		std::vector<void *> pointers;
		for (const size_t place : places)
			pointers.push_back(own.data() + place);
		kernel->run(launch, pointers.data());
		return cudaSuccess;
	});
}

cudaError_t kernelParameter(Function *function, size_t index, size_t *offset, size_t *size)
{
	if (!isFunction(function))
		return cudaErrorInvalidResourceHandle;
	const Kernel *const kernel = function->kernel;
	if (!kernel)
		return cudaErrorNotSupported;
	if (!offset || index >= kernel->count)
		return cudaErrorInvalidValue;
	*offset = 0;
	for (size_t i = 0; i <= index; ++i) {
		const size_t alignment = std::min<size_t>(kernel->sizes[i] & -kernel->sizes[i], 16); // a guess from the size
		*offset = (*offset + alignment - 1) / alignment * alignment + (i < index ? kernel->sizes[i] : 0);
	}
	if (size)
		*size = kernel->sizes[index];
	return cudaSuccess;
}

cudaError_t functionAttribute(Function *function, int attribute, int *value)
{
	if (!value)
		return cudaErrorInvalidValue;
	if (!isFunction(function))
		return cudaErrorInvalidResourceHandle;
	constexpr int values[] = {1024, 0, 0, 0, 32, 90, 90, 0}; // threads, shared, const, local, registers, ptx, binary, -
	if (attribute < 0 || attribute > 15)
		return cudaErrorInvalidValue;
	*value = attribute == 8 ? function->dynamicShared.load() : attribute < 8 ? values[attribute] : 0;
	return cudaSuccess;
}

cudaError_t setFunctionAttribute(Function *function, int attribute, int value)
{
	if (!isFunction(function))
		return cudaErrorInvalidResourceHandle;
	if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
		if (value < 0 || value > 227 * 1024)
			return cudaErrorInvalidValue;
		function->dynamicShared = value;
	}
	return cudaSuccess;
}

cudaError_t occupancy(int *blocks, int blockSize, size_t shared)
{
	if (!blocks || blockSize <= 0 || blockSize > 1024)
		return cudaErrorInvalidValue;
	const size_t byShared = shared ? 227 * 1024 / (shared + 1024) : 32;
	*blocks = int(std::min<size_t>({size_t(2048 / blockSize), 32, byShared}));
	return cudaSuccess;
}

cudaError_t loadLibrary(void **out, bool isForeign)
{
	if (!out)
		return cudaErrorInvalidValue;
	if (const cudaError_t error = unsafeCall())
		return error;
	auto *library = new bool(isForeign);
	Functions &all = functions();
	std::lock_guard guard(all.mutex);
	all.libraries.insert(library);
	*out = library;
	return cudaSuccess;
}

cudaError_t unloadLibrary(void *library)
{
	Functions &all = functions();
	std::lock_guard guard(all.mutex);
	if (!all.libraries.erase(library))
		return cudaErrorInvalidResourceHandle;
	delete static_cast<bool *>(library);
	return cudaSuccess;
}

cudaError_t libraryKernel(void **out, void *library, const char *name)
{
	if (!out || !name)
		return cudaErrorInvalidValue;
	{
		Functions &all = functions();
		std::lock_guard guard(all.mutex);
		if (!all.libraries.count(library))
			return cudaErrorInvalidResourceHandle;
		if (*static_cast<const bool *>(library))
			return cudaErrorNoKernelImageForDevice;
	}
	Function *function = functionNamed(name);
	if (!function->kernel) {
		countRefusal(name, 0);
		refuse(*function);
		return cudaErrorSymbolNotFound;
	}
	*out = function;
	return cudaSuccess;
}

} // namespace emulated

// Calls the watcher for each kernel that was refused so far, with the number of launches. Later refusals call it on the
// thread of the launch or lookup. A kernel that was refused only at its lookup has no launches.
EMULATED_EXPORT void autoamp_emulated_watch_refused(RefusalWatcher *watcher)
{
	std::vector<emulated::Function *> refused;
	{
		emulated::Functions &all = emulated::functions();
		std::lock_guard guard(all.mutex);
		for (const auto &[name, function] : all.byName)
			if (function->isRefused.exchange(false))
				refused.push_back(function);
		emulated::refusalWatcher = watcher;
	}
	for (emulated::Function *function : refused)
		emulated::refuse(*function);
}
