#include "src/cpu/team.h"

#include "src/cpu/generation.h"

#include <dlfcn.h>

namespace autoamp::cpu {

bool sharesPool(const Dnnl &dnnl, void *library)
{
	void *const found = dlsym(library, "omp_get_max_threads");
	dlerror(); // clears the error, which must not reach the application
	return found && dnnl.openMp.maxThreads && found == reinterpret_cast<void *>(dnnl.openMp.maxThreads);
}

Team::Team(const Dnnl &dnnl, unsigned wanted) : openMp_(dnnl.openMp), before_(openMp_.maxThreads()), size_(wanted)
{
	if (wanted == 0 || dnnl.generation != generation() || openMp_.inParallel())
		size_ = 1;
	if (size_ != static_cast<unsigned>(before_))
		openMp_.setThreads(static_cast<int>(size_));
}

Team::~Team()
{
	if (size_ != static_cast<unsigned>(before_))
		openMp_.setThreads(before_);
}

} // namespace autoamp::cpu
