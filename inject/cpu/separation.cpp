#include "inject/cpu/separation.h"

#include "inject/atomics.h"
#include "inject/cpu/openmp.h"
#include "inject/cpu/originals.h"
#include "inject/fork.h"
#include "inject/open_core.h"
#include "inject/references.h"
#include "src/base/futex.h"

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
	bool isChanged = false, hasNewAmbiguous = false, isHeld = false;
};

int countDefinitions(dl_phdr_info *info, size_t, void *data)
{
	auto &[census, objects, isChanged, hasNewAmbiguous, isHeld] = *static_cast<Walk *>(data);
	if (objects == 0) {
		if (census.added == info->dlpi_adds && census.removed == info->dlpi_subs)
			return 1;
		isHeld = holderOfLoader() == Loading::other; // objects may be partly bound
		if (isHeld)
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

// One thread separates plug-ins at a time. The others wait: their plug-in may be the one. A thread that is inside
// dlopen does not wait, because the other one may need the loader, nor does one that is inside other work of the front,
// which may be its own turn. No thread waits for more than a second.
class Turn
{
public:
	Turn()
	{
		if (!isMine && autoamp_front_thread.resolving == 1)
			wait();
	}
	~Turn()
	{
		if (isMine && __atomic_exchange_n(&turn, isFree, __ATOMIC_RELEASE) == waited)
			base::futexWakeAll(&turn);
	}
	Turn(const Turn &) = delete;
	Turn &operator=(const Turn &) = delete;
	bool isMine = __sync_bool_compare_and_swap(&turn, isFree, taken);

private:
	void wait()
	{
		const base::Deadline deadline(1);
		while (!isMine && holderOfLoader() != Loading::self && !deadline.isOver()) {
			base::futexWait(&turn, waited, deadline.at());
			isMine = __atomic_exchange_n(&turn, waited, __ATOMIC_ACQUIRE) == isFree;
		}
	}

	enum State : int { isFree, taken, waited };
};

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
		// Without a slot: a function of the plug-in with this name, too many libraries, or autoamp is off.
		const Object owner = ownerOf(found);
		const unsigned slot = isOff() || !isRoutine(row, owner) ? slotCount : slotFor(row, found);
		if (slot == slotCount && owner.dynamic != plugin.dynamic)
			pin(found);
		redirect(place, slot == slotCount ? found : entryOf(slot), wasReadOnly);
	}
	if (handle)
		loader.close(handle);
	loader.error();
}

// Returns false if another thread is inside dlopen or dlsym.
bool separateNew()
{
	static Census census;
	static bool isNoted; // the OpenMP libraries are known
	const Resolving resolving;
	if (!resolving.hasLoader || !haveLoader())
		return true;
	const Turn turn;
	if (!turn.isMine)
		return true;
	const unsigned before = census.objects;
	Walk walk = {census};
	loader.iterate(countDefinitions, &walk);
	if (walk.isChanged)
		census.objects = walk.objects, isNoted = false;
	if (!isNoted && !walk.isHeld && load(decision) && !isOff())
		isNoted = noteOpenMpLibraries();
	bool hasAmbiguous = false;
	for (const bool isAmbiguous : census.isAmbiguous)
		hasAmbiguous |= isAmbiguous;
	if (walk.isChanged && hasAmbiguous)
		for (Plugin plugin = {census, walk.hasNewAmbiguous || census.objects < before ? 0 : before};
		     loader.iterate(collectReferences, &plugin);
		     plugin.skipped = plugin.objects, plugin.objects = plugin.count = 0)
			separate(plugin);
	return !walk.isHeld;
}

} // namespace

void separatePlugins()
{
	int attempts = 100; // Resolving waits for the loader
	while (!separateNew() && attempts > 0)
		attempts--;
}

} // namespace autoamp::front
