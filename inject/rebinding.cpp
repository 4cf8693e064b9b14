#include "inject/rebinding.h"

#include "inject/atomics.h"
#include "inject/environment.h"
#include "inject/fork.h"
#include "inject/libraries.h"
#include "inject/object.h"
#include "inject/originals.h"
#include "inject/references.h"
#include "inject/start.h"

namespace autoamp::front {

namespace {

unsigned neededVersion(const Object &object, const Library &library)
{
	unsigned needed = versionCount;
	for (const ElfW(Dyn) *entry = object.dynamic; entry && entry->d_tag && needed == versionCount; entry++)
		if (entry->d_tag == DT_NEEDED)
			needed = versionOf(object.table<char>(DT_STRTAB) + entry->d_un.d_val, library);
	return needed;
}

void rebind(dl_phdr_info &info, const Object &object, unsigned index, void **place)
{
	const unsigned version = neededVersion(object, entries[index].library);
	Object target = {load(*place)};
	if (version == versionCount || isOurs(target.address))
		return;
	// A reference into the object itself is not bound so far. Any other reference must point to the function that the
	// slot would find.
	if (!isOwner(&info, 0, &target) && target.address != findInLibrary(version * rowCount + index, nullptr))
		return;
	redirect(place, entryOf(version, index), isReadOnly(info, place));
}

struct Scan {
	unsigned long long before, now; // numbers of objects loaded so far
};

// While dl_iterate_phdr runs, no object is loaded or unloaded. If no thread holds the loader lock, no object is partly
// bound.
int rebindObject(dl_phdr_info *info, size_t, void *data)
{
	auto &[before, now] = *static_cast<Scan *>(data);
	now = info->dlpi_adds;
	if (now == before || load(loaderLock().__data.__lock))
		return 1;
	const Object object = objectOf(*info);
	if (isVendors(object.name()) ||
	    (neededVersion(object, cublas) == versionCount && neededVersion(object, cublaslt) == versionCount &&
	     neededVersion(object, cudnn) == versionCount && neededVersion(object, cudart) == versionCount))
		return 0;
	forEachReference(object, [&](const char *name, const Symbol &symbol, unsigned, void **place) {
		const unsigned index = symbol.st_shndx ? rowCount : rowOf(name); // not if the object itself defines it
		if (index < rowCount)
			rebind(*info, object, index, place);
	});
	return 0;
}

} // namespace

void rebindObjects()
{
	static unsigned long long known;
	if (!load(isStarted) || hook() != Hook::got || &loaderLock() == &noLock || loader.isBroken ||
	    autoamp_front_thread.resolving)
		return;
	const Resolving resolving;
	Scan scan = {known, 0};
	bool isHeld = true;
	for (int i = 0; i < 100 && isHeld && awaitLoader(); i++)
		isHeld = loader.iterate(rebindObject, &scan) && scan.now != scan.before;
	if (!isHeld)
		__atomic_store_n(&known, scan.now, __ATOMIC_RELAXED);
}

} // namespace autoamp::front
