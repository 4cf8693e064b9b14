#include "src/cpu/library_threads.h"

#include <cstdio>
#include <dlfcn.h>
#include <initializer_list>

namespace autoamp::cpu {

namespace {

using Query = int();

Query *find(void *library, const char *name)
{
	return reinterpret_cast<Query *>(dlsym(library, name));
}

// The wheels of NumPy and SciPy rename the functions of OpenBLAS.
template <class Function = Query>
Function *findOpenBlas(void *library, const char *name)
{
	for (const char *prefix : {"", "scipy_"})
		for (const char *suffix : {"", "64_"}) {
			char full[64];
			std::snprintf(full, sizeof full, "%s%s%s", prefix, name, suffix);
			if (void *const found = dlsym(library, full))
				return reinterpret_cast<Function *>(found);
		}
	return nullptr;
}

// In the scope of the program, which can have another OpenMP library than oneDNN. It stays loaded.
Query *findInParallel()
{
	Query *const found = find(RTLD_DEFAULT, "omp_in_parallel");
	Dl_info owner;
	if (found && dladdr(reinterpret_cast<void *>(found), &owner))
		dlopen(owner.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	return found;
}

LibraryThreads read(const Dnnl &dnnl, void *library)
{
	Query *const openMp = find(library, "omp_get_max_threads");
	const bool isShared = openMp && openMp == dnnl.openMp.maxThreads;
	const LibraryThreads byOpenMp{isShared ? Pool::sharedOpenMp : Pool::otherOpenMp, openMp,
	                              find(library, "omp_in_parallel")};
	if (Query *const count = findOpenBlas(library, "openblas_get_num_threads")) {
		Query *const parallel = findOpenBlas(library, "openblas_get_parallel");
		const int build = parallel ? parallel() : 0;
		if (build == 2 && openMp) // its own count is set by the next product
			return byOpenMp;
		return {build == 0 ? Pool::none : Pool::own, count, findInParallel()};
	}
	if (Query *const count = find(library, "MKL_Get_Max_Threads")) // its OpenMP library may be opened later
		return {byOpenMp.pool, count, byOpenMp.inParallel};
	if (Query *const count = find(library, "bli_thread_get_num_threads"))
		return {openMp ? byOpenMp.pool : Pool::own, count, openMp ? byOpenMp.inParallel : findInParallel()};
	return openMp ? byOpenMp : LibraryThreads{};
}

} // namespace

const char *kernelsOf(void *library)
{
	// openblas_get_config writes its text into static memory at each call.
	const auto name = findOpenBlas<const char *()>(library, "openblas_get_corename");
	dlerror(); // clears the error, which must not reach the application
	return name ? name() : "";
}

Threads LibraryThreads::now() const
{
	if (pool == Pool::none || (inParallel && inParallel()))
		return {1, pool};
	const int threads = count();
	return {threads > 1 ? static_cast<unsigned>(threads) : 1, pool};
}

LibraryThreads threadsOf(const Dnnl &dnnl, void *library)
{
	const LibraryThreads found = read(dnnl, library);
	dlerror(); // clears the error, which must not reach the application
	return found;
}

} // namespace autoamp::cpu
