#include "src/cpu/library_threads.h"

#include "src/cpu/generation.h"

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

template <typename Function>
bool resolve(Function *&function, void *library, const char *name)
{
	function = reinterpret_cast<Function *>(dlsym(library, name));
	return function;
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

// In the scope of the program, which can have another OpenMP library than the BLAS. It stays loaded.
Query *findInParallel()
{
	Query *const found = find(RTLD_DEFAULT, "omp_in_parallel");
	Dl_info owner;
	if (found && dladdr(reinterpret_cast<void *>(found), &owner))
		dlopen(owner.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	return found;
}

LibraryThreads read(void *library)
{
	OpenMp functions;
	const bool isUsable = findOpenMp(library, functions);
	Query *const openMp = find(library, "omp_get_max_threads");
	const LibraryThreads byOpenMp{isUsable ? Pool::openMp : Pool::otherOpenMp, openMp, find(library, "omp_in_parallel"),
	                              functions};
	if (Query *const count = findOpenBlas(library, "openblas_get_num_threads")) {
		Query *const parallel = findOpenBlas(library, "openblas_get_parallel");
		const int build = parallel ? parallel() : 0;
		if (build == 2 && openMp) // its own count is set by the next product
			return byOpenMp;
		return {build == 0 ? Pool::none : Pool::own, count, findInParallel(), {}};
	}
	if (Query *const count = find(library, "MKL_Get_Max_Threads")) // its OpenMP library may be opened later
		return {byOpenMp.pool, count, byOpenMp.inParallel, functions};
	if (Query *const count = find(library, "bli_thread_get_num_threads"))
		return {openMp ? byOpenMp.pool : Pool::own, count, openMp ? byOpenMp.inParallel : findInParallel(), functions};
	return openMp ? byOpenMp : LibraryThreads{};
}

} // namespace

bool findOpenMp(void *library, OpenMp &found)
{
	OpenMp openMp;
	openMp.generation = generation();
	if (!resolve(openMp.maxThreads, library, "omp_get_max_threads") ||
	    !resolve(openMp.setThreads, library, "omp_set_num_threads") ||
	    !resolve(openMp.inParallel, library, "omp_in_parallel") ||
	    !resolve(openMp.threadNumber, library, "omp_get_thread_num") ||
	    !resolve(openMp.threadCount, library, "omp_get_num_threads") ||
	    !resolve(openMp.parallel, library, "GOMP_parallel"))
		return false;
	found = openMp;
	return true;
}

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
	const bool isInherited = pool == Pool::openMp && openMp.generation != generation();
	return {threads > 1 ? static_cast<unsigned>(threads) : 1, isInherited ? Pool::otherOpenMp : pool, &openMp};
}

LibraryThreads threadsOf(void *library)
{
	const LibraryThreads found = read(library);
	dlerror(); // clears the error, which must not reach the application
	return found;
}

} // namespace autoamp::cpu
