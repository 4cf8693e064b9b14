#include "inject/cpu/separation.h"

#include "inject/atomics.h"
#include "inject/cpu/originals.h"
#include "inject/fork.h"
#include "inject/open_core.h"
#include "inject/references.h"

namespace autoamp::front {

namespace {

// The definitions of routines in the objects that are loaded. dl_iterate_phdr reports them in the order of loading, and
// counts those that were added and removed.
struct Census {
	unsigned long long added, removed;
	unsigned objects;
	const void *definer[blasEntryCount]; // dynamic section of the first object
	bool isAmbiguous[blasEntryCount];    // there is another one
};

struct Walk {
	Census &census;
	unsigned objects = 0;
	bool isChanged = false, hasNewAmbiguous = false;
};

int countDefinitions(dl_phdr_info *info, size_t, void *data)
{
	auto &[census, objects, isChanged, hasNewAmbiguous] = *static_cast<Walk *>(data);
	if (objects == 0) {
		if ((census.added == info->dlpi_adds && census.removed == info->dlpi_subs) ||
		    holderOfLoader() == Loading::other) // objects may be partly bound
			return 1;
		if (census.removed != info->dlpi_subs) // all objects have other numbers
			census = {};
		census.added = info->dlpi_adds, census.removed = info->dlpi_subs;
		isChanged = true;
	}
	if (objects++ < census.objects)
		return 0;
	const Object object = objectOf(*info);
	for (unsigned row = 0; row < blasEntryCount && object.dynamic && !isFront(object.dynamic); row++) {
		if (!object.find(routineNames[row]))
			continue;
		if (!census.definer[row])
			census.definer[row] = object.dynamic;
		hasNewAmbiguous |= census.definer[row] != object.dynamic && !census.isAmbiguous[row];
		census.isAmbiguous[row] |= census.definer[row] != object.dynamic;
	}
	return 0;
}

// The references of one object that the loader has bound to the front, or has not bound yet.
struct Plugin {
	const Census &census;
	unsigned skipped;     // objects before it
	unsigned objects = 0; // looked at
	const ElfW(Dyn) *dynamic = nullptr;
	struct Reference {
		void **place;
		unsigned row;
		bool isReadOnly;
	} references[64] = {};
	unsigned count = 0;
	char path[4096] = {};
};

int collectReferences(dl_phdr_info *info, size_t, void *data)
{
	auto &plugin = *static_cast<Plugin *>(data);
	if (plugin.objects++ < plugin.skipped)
		return 0;
	const Object object = objectOf(*info);
	const size_t size = length(object.path);
	if (!object.dynamic || isFront(object.dynamic) || size == 0 || size >= sizeof plugin.path)
		return 0;
	forEachReference(object, [&](const char *name, const Symbol &, unsigned type, void **place) {
		const unsigned row = rowOf(name);
		if (row == blasEntryCount || !plugin.census.isAmbiguous[row] ||
		    plugin.count == sizeof plugin.references / sizeof *plugin.references)
			return;
		Object target = {load(*place)};
		const bool isUnbound = type == R_X86_64_JUMP_SLOT && isOwner(info, 0, &target);
		if (isUnbound || target.address == entryOf(row))
			plugin.references[plugin.count++] = {place, row, isReadOnly(*info, place)};
	});
	if (plugin.count == 0)
		return 0;
	for (size_t i = 0; i <= size; i++)
		plugin.path[i] = object.path[i];
	plugin.dynamic = object.dynamic;
	return 1;
}

void separate(const Plugin &plugin)
{
	void *const handle = loader.open(plugin.path, RTLD_LAZY | RTLD_NOLOAD); // keeps it loaded meanwhile
	const bool isSame = handle && static_cast<link_map *>(handle)->l_ld == plugin.dynamic;
	const Object file = {nullptr, 0, plugin.dynamic, plugin.path};
	for (unsigned i = 0; isSame && i < plugin.count; i++) {
		const auto &[place, row, wasReadOnly] = plugin.references[i];
		bool isShared;
		void *const found = definitionFor(row, file, isShared);
		if (!found || isShared || isFront(found))
			continue;
		// Without a slot: a function of the plug-in with this name, or autoamp is off.
		const Object owner = ownerOf(found);
		const bool isDirect = isOff() || !isRoutine(row, owner);
		if (isDirect && owner.dynamic != plugin.dynamic)
			pin(found);
		const unsigned slot = isDirect ? slotCount : slotFor(row, found);
		if (isDirect || slot < slotCount)
			redirect(place, isDirect ? found : entryOf(slot), wasReadOnly);
	}
	if (handle)
		loader.close(handle);
	loader.error();
}

} // namespace

void separatePlugins()
{
	static Census census;
	static bool isBusy;        // another thread separates them: waiting for it could hang inside dlopen
	const Resolving resolving; // a child must not inherit isBusy
	if (!haveLoader() || __atomic_exchange_n(&isBusy, true, __ATOMIC_ACQUIRE))
		return;
	const unsigned before = census.objects;
	Walk walk = {census};
	if (resolving.hasLoader)
		loader.iterate(countDefinitions, &walk);
	if (walk.isChanged)
		census.objects = walk.objects;
	bool hasAmbiguous = false;
	for (const bool isAmbiguous : census.isAmbiguous)
		hasAmbiguous |= isAmbiguous;
	if (walk.isChanged && hasAmbiguous)
		for (Plugin plugin = {census, walk.hasNewAmbiguous || census.objects < before ? 0 : before};
		     loader.iterate(collectReferences, &plugin);
		     plugin.skipped = plugin.objects, plugin.objects = plugin.count = 0)
			separate(plugin);
	__atomic_store_n(&isBusy, false, __ATOMIC_RELEASE);
}

} // namespace autoamp::front
