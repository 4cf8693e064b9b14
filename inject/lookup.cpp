// The hook of dlsym and dlvsym. Any thread.
#include "inject/atomics.h"
#include "inject/environment.h"
#include "inject/fork.h"
#include "inject/libraries.h"
#include "inject/object.h"
#include "inject/originals.h"
#include "inject/profiler.h"
#include "inject/rebinding.h"
#include "inject/search.h"
#include "inject/start.h"

using namespace autoamp::front;

bool autoamp_front_passes;

namespace {

// Lookups of exported names without slots. Profiler functions resolve to the front if there is another definition. NVTX
// looks for its entry in the front's own file.
Answer lookUpOther(void *handle, const char *name, const char *version, const void *caller)
{
	const auto ours = switchNamed(name);
	const bool isReceiver = equal(name, "InitializeInjectionNvtx2");
	if (!ours && !isReceiver)
		return {};
	if (isReceiver && handle != RTLD_DEFAULT && handle != RTLD_NEXT && isFront(static_cast<link_map *>(handle)->l_ld))
		return {};
	const Resolving resolving;
	void *const found = findBehind(handle, name, version, ownerOf(caller).path);
	if (!found)
		return findNothing(handle, name, version);
	if (handle == RTLD_NEXT) // the original dlsym finds the next object after the caller
		return {};
	if (isReceiver || hook() == Hook::off)
		return {found, 1};
	return {reinterpret_cast<void *>(ours), 1};
}

} // namespace

extern "C" HIDDEN Answer autoamp_front_lookup(void *handle, const char *name, const char *version, const void *caller)
{
	const bool canPass = haveLoader() && load(isStarted) && hook() != Hook::got; // not before the environment exists
	if (autoamp_front_thread.depth)
		return {};
	rebindObjects();
	if (canPass)
		__atomic_store_n(&autoamp_front_passes, true, __ATOMIC_RELEASE);
	const unsigned index = name ? rowOf(name) : rowCount;
	if (index == rowCount)
		return name ? lookUpOther(handle, name, version, caller) : Answer{};
	const Resolving resolving;
	const Object info = ownerOf(caller);
	if (isVendors(info.name())) // libcudnn.so.9 looks up its own public names
		return {};
	void *const found = findBehind(handle, name, version, info.path);
	if (!found)
		return findNothing(handle, name, version);
	if (handle == RTLD_NEXT)
		return {}; // the original dlsym finds the next object after the caller
	const Object owner = ownerOf(found);
	const unsigned its = versionOf(owner.name(), entries[index].library);
	if (hook() == Hook::off || (*owner.path && its == versionCount))
		return {found, 1};
	// Linked programs of that version use the copy that was loaded first. Other copies are not intercepted. A copy in
	// another link-map namespace has no owner here and is not intercepted either.
	const void *const first = *owner.path ? findLoaded(owner.name(), index) : nullptr;
	loader.error();
	if (*owner.path && (!first || first == found) && keepOriginal(index, found, nullptr))
		return {entryOf(its, index), 1};
	if (index < vendorEntryCount)
		count(autoamp_front_second[index], caller);
	return {found, 1};
}
