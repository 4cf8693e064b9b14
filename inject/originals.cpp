#include "inject/originals.h"

#include "inject/atomics.h"
#include "inject/front.h"
#include "inject/libraries.h"
#include "inject/loader.h"
#include "inject/object.h"
#include "inject/open_core.h"
#include "inject/search.h"

extern "C" {
void *autoamp_front_originals[autoamp::front::rowCount];
unsigned autoamp_front_unseen;
unsigned autoamp_front_second[autoamp::front::rowCount];
}

namespace autoamp::front {

constinit const char coreName[] = "autoamp_core";
constinit const unsigned wrapperCount = entry::vendorEntryCount;

bool keepOriginal(unsigned index, void *found, const void *caller)
{
	const Object owner = ownerOf(found);
	// A slot outlives the client that closes its library: the function in it must stay mapped.
	if (haveLoader())
		loader.open(owner.path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	const Library &library = entries[index].library;
	const unsigned version = versionOf(owner.name(), library);
	unsigned inUse = undecided;
	if (version < versionCount || owner.base == ownerOf(caller).base)
		if (!__atomic_compare_exchange_n(&library.versionInUse, &inUse, version, false, __ATOMIC_ACQ_REL,
		                                 __ATOMIC_ACQUIRE) &&
		    inUse != version)
			return false;
	const void *const original = settle(autoamp_front_originals[index], found);
	if (original == found)
		return true;
	// A library and a part that it loads are one copy.
	const char *const other = ownerOf(original).name();
	return version < versionCount && versionOf(other, library) == version && !equal(other, owner.name()) &&
	       (isPart(other, library, version) || isPart(owner.name(), library, version));
}

void *findLoaded(const char *file, unsigned index)
{
	void *const found = findLoaded(file, entries[index].name);
	return isOurs(found) ? nullptr : found;
}

namespace {

struct Search {
	unsigned slot;
	const char *caller; // the caller's file, which may contain a copy of the library
	void *found;
};

int isInLibrary(dl_phdr_info *info, size_t, void *data)
{
	auto &search = *static_cast<Search *>(data);
	const auto &[name, library] = entries[search.slot % rowCount];
	const Object object = objectOf(*info);
	const unsigned version = versionOf(object.name(), library), wanted = search.slot / rowCount;
	const bool isLibrary = wanted ? version == wanted : version < versionCount;
	if (isLibrary || object.path == search.caller)
		if (const Symbol *symbol = object.find(name))
			search.found = object.place(symbol);
	return search.found && isLibrary; // a library takes precedence over the caller's file
}

} // namespace

void *findInLibrary(unsigned slot, const void *caller)
{
	Search search = {slot, ownerOf(caller).path, nullptr};
	loader.iterate(isInLibrary, &search);
	return search.found;
}

namespace {

// Searches the loaded copies of the library and then its parts.
void *findInLoaded(unsigned slot)
{
	const unsigned index = slot % rowCount, version = slot / rowCount;
	const auto &[name, library] = entries[index];
	const auto isWanted = [version](unsigned each) { return !version || each == version; };
	void *found = nullptr;
	for (unsigned each = unversioned + 1; !found && each < versionCount; each++)
		if (isWanted(each))
			found = findLoaded(library.sonames[each], index);
	for (unsigned each = unversioned + 1; !found && each < versionCount; each++)
		for (const char *part : library.parts[each])
			if (!found && part && isWanted(each))
				found = findLoaded(part, index);
	return found;
}

} // namespace

namespace {

// A tool that is preloaded after the front may replace a launch function. It has no symbol versions, so the loader
// binds versioned references to it, too. Returns null if there is none.
void *findReplacement(const char *name, const Library &library)
{
	void *const next = autoamp_front_dlsym(RTLD_NEXT, name);
	return next && versionOf(ownerOf(next).name(), library) == versionCount ? next : nullptr;
}

} // namespace

void *resolveOriginal(unsigned slot, const void *caller, bool hasLoader)
{
	const unsigned index = slot % rowCount, version = slot / rowCount;
	const auto &[name, library] = entries[index];
	if (void *known = load(autoamp_front_originals[index]); known && version == load(library.versionInUse))
		return known;
	if (!hasLoader || !haveLoader())
		return findInLibrary(slot, caller);
	void *found = index < vendorEntryCount ? nullptr : findReplacement(name, library);
	if (!found)
		found = version ? autoamp_front_dlvsym(RTLD_NEXT, name, library.sonames[version])
		                : autoamp_front_dlsym(RTLD_NEXT, name);
	for (const char *part : library.parts[version])
		if (!found && part)
			found = autoamp_front_dlvsym(RTLD_NEXT, name, part);
	if (found)
		return found;
	found = findInLoaded(slot);
	if (!found && caller)
		found = findLoaded(ownerOf(caller).path, index);
	loader.error(); // clears the errors of these lookups, which the application must not see
	return found;
}

void count(unsigned &calls, const void *caller)
{
	if (!autoamp_front_thread.depth && !isVendors(ownerOf(caller).name()))
		__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
}

} // namespace autoamp::front
