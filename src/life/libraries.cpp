#include "src/life/libraries.h"

#include "src/base/caller_state.h"
#include "src/base/faults.h"
#include "src/base/log.h"
#include "src/cuda/library.h"
#include "src/life/fork_hold.h"
#include "src/op/vendor.h"

#include <cstdio>

namespace autoamp::core {

void noteLibrary(Process &process, op::Library library, const void *original)
{
	const base::CallerState callerState;
	const ForkHold hold;
	const unsigned bit = 1u << static_cast<unsigned>(library);
	if (process.librariesSeen.fetch_or(bit, std::memory_order_relaxed) & bit)
		return;
	if (library == op::Library::blas)
		return;
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
