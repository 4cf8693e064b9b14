#include "src/life/libraries.h"

#include "src/base/caller_state.h"
#include "src/base/faults.h"
#include "src/base/log.h"
#include "src/cuda/library.h"
#include "src/life/fork_hold.h"
#include "src/op/vendor.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>

namespace autoamp::core {

namespace {

// Describes the BLAS that contains `original`: its file, and what it reports about itself.
void describeBlas(const void *original, char *text, size_t size)
{
	Dl_info owner;
	const char *const path = dladdr(original, &owner) && owner.dli_fname ? owner.dli_fname : "";
	const char *const slash = std::strrchr(path, '/');
	const char *about = nullptr;
	using Describe = const char *();
	for (const char *name : {"openblas_get_config", "openblas_get_config64_", "scipy_openblas_get_config",
	                         "scipy_openblas_get_config64_", "bli_info_get_version_str"})
		if (auto *describe = reinterpret_cast<Describe *>(cuda::findInLibraryOf(original, name));
		    describe && (about = describe()))
			break;
	const char *const maker = about && !std::strstr(about, "OpenBLAS") ? "BLIS " : "";
	std::snprintf(text, size, about ? "%s (%s%s)" : "%s", slash ? slash + 1 : path, maker, about);
}

} // namespace

void noteLibrary(Process &process, op::Library library, const void *original)
{
	const base::CallerState callerState;
	const ForkHold hold;
	const unsigned bit = 1u << static_cast<unsigned>(library);
	if (process.librariesSeen.fetch_or(bit, std::memory_order_relaxed) & bit)
		return;
	if (library == op::Library::blas) {
		// A forked child must not need the loader, of which it may have inherited a locked or half-done state.
		static char text[512];
		static const void *described;
		if (described != original)
			describeBlas(original, text, sizeof text);
		described = original;
		process.recorder.property("version", op::name(library), text);
		base::log(base::LogLevel::info, "%s %s", op::name(library), text);
		return;
	}
	const bool isDnn = library == op::Library::cudnn;
	if (!isDnn)
		op::cublasLt(original);
	if (library == op::Library::cublaslt || (!process.isTracing && !base::logs(base::LogLevel::info)))
		return;
	using GetProperty = int(int, int *);
	const char *const name = isDnn ? "cudnnGetProperty" : "cublasGetProperty";
	if (auto *get = reinterpret_cast<GetProperty *>(cuda::findInLibraryOf(original, name))) {
		int part[3] = {};
		if (get(0, &part[0]) == 0 && get(1, &part[1]) == 0 && get(2, &part[2]) == 0) {
			char text[48];
			std::snprintf(text, sizeof text, "%d.%d.%d", part[0], part[1], part[2]);
			process.recorder.property("version", op::name(library), text);
			base::log(base::LogLevel::info, "%s %s", op::name(library), text);
		} else {
			base::leaveFault(name);
		}
	}
}

} // namespace autoamp::core
