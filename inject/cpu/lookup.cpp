// The hook of dlsym and dlvsym. Any thread.
#include "inject/atomics.h"
#include "inject/cpu/originals.h"
#include "inject/cpu/separation.h"
#include "inject/environment.h"
#include "inject/fork.h"
#include "inject/object.h"
#include "inject/search.h"
#include "inject/start.h"
#include "inject/vendors.h"

using namespace autoamp::front;

bool autoamp_front_passes;

namespace {

bool isBlasFile(const char *file)
{
	for (const char *prefix : blasFiles)
		if (begins(file, prefix))
			return true;
	return false;
}

} // namespace

extern "C" HIDDEN Answer autoamp_front_lookup(void *handle, const char *name, const char *version, const void *caller)
{
	if (haveLoader() && load(isStarted))
		__atomic_store_n(&autoamp_front_passes, true, __ATOMIC_RELEASE);
	if (handle != RTLD_DEFAULT && handle != RTLD_NEXT && !autoamp_front_thread.depth && load(isStarted))
		separatePlugins();
	const unsigned row = name && !autoamp_front_thread.depth ? rowOf(name) : blasEntryCount;
	if (row == blasEntryCount)
		return {};
	const Resolving resolving;
	const Object info = ownerOf(caller);
	if (isBlasFile(info.name())) // libmkl_rt looks up the functions of its other libraries
		return {};
	void *const found = findBehind(handle, name, version, info.path);
	if (!found)
		return findNothing(handle, name, version);
	if (handle == RTLD_NEXT)
		return {}; // the original dlsym finds the next object after the caller
	const unsigned slot = hook() == Hook::off || !isRoutine(row, ownerOf(found)) ? slotCount : slotFor(row, found);
	return {slot == slotCount ? found : entryOf(slot), 1};
}
