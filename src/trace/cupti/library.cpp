#include "src/trace/cupti/library.h"

#include "src/base/broken_loader.h"

#include <climits>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <initializer_list>
#include <link.h>

namespace autoamp::trace {
namespace {

#define SAME(Record, field, Vendor, vendorField) static_assert(offsetof(Record, field) == offsetof(Vendor, vendorField))
#define SAME_KERNEL(Vendor)                                                                                            \
	SAME(KernelRecord, start, Vendor, start);                                                                          \
	SAME(KernelRecord, deviceId, Vendor, deviceId);                                                                    \
	SAME(KernelRecord, streamId, Vendor, streamId);                                                                    \
	SAME(KernelRecord, correlationId, Vendor, correlationId);                                                          \
	SAME(KernelRecord, name, Vendor, name);                                                                            \
	SAME(KernelRecord, graphNodeId, Vendor, graphNodeId)
SAME_KERNEL(CUpti_ActivityKernel5);
SAME_KERNEL(CUpti_ActivityKernel10);
#define SAME_MEMORY(Vendor)                                                                                            \
	SAME(MemoryRecord, start, Vendor, start);                                                                          \
	SAME(MemoryRecord, deviceId, Vendor, deviceId);                                                                    \
	SAME(MemoryRecord, streamId, Vendor, streamId);                                                                    \
	SAME(MemoryRecord, correlationId, Vendor, correlationId);                                                          \
	SAME(MemoryRecord, graphNodeId, Vendor, graphNodeId)
SAME_MEMORY(CUpti_ActivityMemcpy4);
SAME_MEMORY(CUpti_ActivityMemcpy6);
SAME_MEMORY(CUpti_ActivityMemset4);
SAME(MemoryRecord, copyKind, CUpti_ActivityMemcpy6, copyKind);
SAME(OverheadRecord, start, CUpti_ActivityOverhead3, start);

// Wheels and toolkits install libcupti next to libcudart, or in a package next to that of libcudart.
void *openNextToCudart(const char *name)
{
	struct Search {
		const char *name;
		void *library;
	} search = {name, nullptr};
	dl_iterate_phdr(
	    [](dl_phdr_info *info, size_t, void *data) {
		    auto &found = *static_cast<Search *>(data);
		    const char *const base = strstr(info->dlpi_name, "/libcudart.so.");
		    for (const char *folder : {"", "/../../cuda_cupti/lib"}) {
			    char path[PATH_MAX];
			    const int length = base ? static_cast<int>(base - info->dlpi_name) : 0;
			    if (!base || snprintf(path, sizeof path, "%.*s%s/%s", length, info->dlpi_name, folder, found.name) >=
			                     static_cast<int>(sizeof path))
				    continue;
			    if ((found.library = dlopen(path, RTLD_NOW)))
				    return 1;
		    }
		    return 0;
	    },
	    &search);
	return search.library;
}

// Prefers a loaded copy: a second copy would conflict with the subscriber of the first one.
void *openCupti(const char *path)
{
	if (base::isLoaderBroken)
		return nullptr;
	if (path && *path)
		return dlopen(path, RTLD_NOW);
	constexpr const char *names[] = {"libcupti.so.13", "libcupti.so.12"};
	for (const char *name : names)
		if (void *library = dlopen(name, RTLD_NOW | RTLD_NOLOAD))
			return library;
	for (const char *name : names)
		if (void *library = openNextToCudart(name))
			return library;
	for (const char *name : names)
		if (void *library = dlopen(name, RTLD_NOW))
			return library;
	return nullptr;
}

} // namespace

bool loadCupti(const char *path, Cupti &cupti, char (&why)[160])
{
	void *const library = openCupti(path);
	if (!library) {
		snprintf(why, sizeof why, "%s", path && *path ? dlerror() : "there is no libcupti.so.13 or .12");
		return false;
	}
#define X(name)                                                                                                        \
	if (!(cupti.name = reinterpret_cast<decltype(cupti.name)>(dlsym(library, #name)))) {                               \
		snprintf(why, sizeof why, "libcupti has no " #name);                                                           \
		return false;                                                                                                  \
	}
	AUTOAMP_CUPTI_FUNCTIONS(X)
#undef X
	cupti.cuptiSubscribe_v2 = reinterpret_cast<decltype(cupti.cuptiSubscribe_v2)>(dlsym(library, "cuptiSubscribe_v2"));
	cupti.isEmulated = dlsym(library, "autoamp_emulated_calls") != nullptr;
	return true;
}

} // namespace autoamp::trace
