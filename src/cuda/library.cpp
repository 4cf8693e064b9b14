#include "src/cuda/library.h"

#include "src/base/broken_loader.h"

#include <dlfcn.h>

namespace autoamp::cuda {

void *findInLibraryOf(const void *original, const char *name)
{
	Dl_info owner;
	if (base::isLoaderBroken || !dladdr(original, &owner) || !owner.dli_fname)
		return nullptr;
	// RTLD_NOLOAD: the front has pinned the loaded object, and nothing new is mapped.
	void *library = dlopen(owner.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	void *const found = library ? dlsym(library, name) : nullptr;
	dlerror(); // clears the error, which must not reach the application
	return found;
}

void *findInProcess(const char *name)
{
	void *const found = dlsym(RTLD_DEFAULT, name);
	dlerror();
	return found;
}

} // namespace autoamp::cuda
