#include "src/cpu/library_threads.h"

#include "src/cpu/generation.h"

#include <atomic>
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

constinit std::atomic<Query *const *> queries{nullptr};
constinit std::atomic<uint32_t> regionIn{0}; // generation() of the first process with a region

LibraryThreads read(void *library)
{
	// The BLAS is bound to the OpenMP library of the program if there is one, and else to the one that it needs.
	const bool needsOpenMp = find(library, "omp_get_max_threads");
	void *const scope = needsOpenMp && find(RTLD_DEFAULT, "omp_get_max_threads") ? RTLD_DEFAULT : library;
	OpenMp functions;
	// libiomp5 and libomp have the functions of libgomp, and the one that only they have. They start new threads in a
	// child, where products would still have one thread.
	const bool isGomp = needsOpenMp && findOpenMp(scope, functions) && !find(scope, "__kmpc_fork_call");
	const LibraryThreads byOpenMp{isGomp ? Pool::openMp : Pool::otherOpenMp, find(scope, "omp_get_max_threads"),
	                              functions};
	if (Query *const count = findOpenBlas(library, "openblas_get_num_threads")) {
		Query *const parallel = findOpenBlas(library, "openblas_get_parallel");
		const int build = parallel ? parallel() : 0;
		if (build == 2 && needsOpenMp) // its own count is set by the next product
			return byOpenMp;
		return {build == 0 ? Pool::none : Pool::own, count, {}};
	}
	if (Query *const count = find(library, "MKL_Get_Max_Threads")) // its OpenMP library may be opened later
		return {byOpenMp.pool, count, functions};
	if (Query *const count = find(library, "bli_thread_get_num_threads"))
		return {needsOpenMp ? byOpenMp.pool : Pool::own, count, functions};
	// Another library can need OpenMP for other routines, and multiply on one thread.
	return needsOpenMp ? LibraryThreads{Pool::otherOpenMp, byOpenMp.count, {}} : LibraryThreads{};
}

} // namespace

void *functionOf(void *library, const char *name)
{
	return dlsym(library, name);
}

bool findOpenMp(void *library, OpenMp &found)
{
	OpenMp openMp;
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

void watchRegions(int (*const *inParallel)())
{
	queries.store(inParallel, std::memory_order_relaxed);
}

bool isInParallel()
{
	for (Query *const *each = queries.load(std::memory_order_relaxed); each; ++each) {
		Query *const query = __atomic_load_n(each, __ATOMIC_ACQUIRE);
		if (!query)
			return false;
		if (query())
			return true;
	}
	return false;
}

void noteOpenMpRegion()
{
	uint32_t none = 0;
	if (regionIn.load(std::memory_order_relaxed) == none)
		regionIn.compare_exchange_strong(none, generation());
}

bool hasOpenMpThreads()
{
	const uint32_t known = regionIn.load(std::memory_order_relaxed);
	return known == 0 || known == generation();
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
	if (pool == Pool::none || isInParallel())
		return {1, pool};
	const int threads = count();
	const bool isMissing = pool == Pool::openMp && !hasOpenMpThreads();
	return {threads > 1 ? static_cast<unsigned>(threads) : 1, isMissing ? Pool::otherOpenMp : pool, &openMp};
}

LibraryThreads threadsOf(void *library)
{
	const LibraryThreads found = read(library);
	dlerror(); // clears the error, which must not reach the application
	return found;
}

} // namespace autoamp::cpu
