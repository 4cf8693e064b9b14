#include "driver.h"

#include <atomic>
#include <cstdio>
#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

// ---- functions that may be called before cuInit

namespace {

// Like Driver::enter, but without the check for cuInit.
template <class Work>
CUresult early(emulated::Entry &entry, Work work)
{
	const cudaError_t error = entry.begin();
	return error ? Driver::as(error) : work();
}

void *exported(const std::string &symbol)
{
	for (const ExportedName *row = exportedNames; row->symbol; ++row)
		if (symbol == row->symbol)
			return row->address;
	return nullptr;
}

CUresult lookUp(const char *name, void **out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
	if (!name || !out)
		return CUDA_ERROR_INVALID_VALUE;
	std::string symbol;
	bool known = false;
	for (const VersionedName *row = versionedNames; row->name; ++row) // sorted by ascending version
		if (strcmp(row->name, name) == 0) {
			known = true;
			if (row->version <= version)
				symbol = row->symbol;
		}
	if (!known)
		symbol = name;
	void *found = nullptr;
	if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		for (const char *suffix : {"_ptsz", "_ptds"})
			if (!found)
				found = exported(symbol + suffix);
	*out = found ? found : exported(symbol);
	if (status)
		*status = *out    ? CU_GET_PROC_ADDRESS_SUCCESS
		          : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
		                  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return *out || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

} // namespace

extern "C" EMULATED_EXPORT CUresult cuInit(unsigned int flags)
{
	static constinit emulated::Entry entry("cuInit");
	return early(entry, [&] { return flags ? CUDA_ERROR_INVALID_VALUE : Driver::as(emulated::initialize()); });
}

extern "C" EMULATED_EXPORT CUresult cuDriverGetVersion(int *version)
{
	static constinit emulated::Entry entry("cuDriverGetVersion");
	return early(entry, [&] { return Driver::give(version, emulated::driverVersion()); });
}

extern "C" EMULATED_EXPORT CUresult cuGetErrorName(CUresult error, const char **out)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = emulated::errorName(errorNames, error);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

extern "C" EMULATED_EXPORT CUresult cuGetErrorString(CUresult error, const char **out)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = emulated::errorText(errorNames, error);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

extern "C" EMULATED_EXPORT CUresult cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags)
{
	static constinit emulated::Entry entry("cuGetProcAddress");
	return early(entry, [&] { return lookUp(name, out, version, flags, nullptr); });
}

extern "C" EMULATED_EXPORT CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                                                        CUdriverProcAddressQueryResult *status)
{
	static constinit emulated::Entry entry("cuGetProcAddress_v2");
	return early(entry, [&] { return lookUp(name, out, version, flags, status); });
}

// Names the file that called cuGetExportTable, and thus contains a CUDA runtime. Only NVIDIA's own code uses the
// undocumented tables, in particular a CUDA runtime, which cannot work without them. The file is the program itself if
// nvcc linked it with the default static runtime.
static void notifyRuntime(const void *caller)
{
	Dl_info info = {};
	dladdr(caller, &info);
	const char *const file = info.dli_fname ? info.dli_fname : "a file of no name";
	const auto *const header = static_cast<const ElfW(Ehdr) *>(info.dli_fbase);
	const auto *const program = reinterpret_cast<const char *>(getauxval(AT_PHDR));
	if (header && reinterpret_cast<const char *>(header) + header->e_phoff == program)
		emulated::say("%s contains the static CUDA runtime; relink it with nvcc -cudart shared, or "
		              "CMAKE_CUDA_RUNTIME_LIBRARY=Shared",
		              file);
	else
		emulated::say("%s uses a CUDA runtime that is not emulated; its calls fail", file);
}

extern "C" EMULATED_EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *)
{
	static constinit emulated::Entry entry("cuGetExportTable");
	static std::atomic<bool> isTold{false};
	if (!isTold.exchange(true))
		notifyRuntime(__builtin_return_address(0));
	return early(entry, [&] {
		if (table)
			*table = nullptr;
		return CUDA_ERROR_NOT_FOUND;
	});
}
